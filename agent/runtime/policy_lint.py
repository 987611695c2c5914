"""What a checkpoints file says that fits none of the loaded tools: misspelt names, most of the time.

No error: programs elsewhere may ask for it, a missing value shows as such, a failing condition asks. But its author
meant something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent.domain.link_template import placeholder_names
from agent.domain.policy import Policy, Rule
from agent.runtime.agents import Registry
from agent.runtime.tool import Tool

_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_ASKED_FOR = re.compile(r"\bhas\s*\([^()]*\)")
_LOOKED_AT = re.compile(r"\b(args|facts)\.([A-Za-z_]\w*)")


def lint_policy(policy: Policy, registry: Registry) -> list[str]:
    """A sentence for each, in the order of the checkpoints; none where no agents are loaded."""
    tools = list({tool.name: tool for agent in registry for tool in agent.tools}.values())
    found = [sentence for rule in policy.rules for sentence in _of_rule(rule, tools)] if tools else []
    named = policy.defaults.default_agent
    if named and any(registry) and registry.find(named) is None:
        found.insert(
            0, f'[defaults]: "default_agent" names {named}, which is not among the agents that are loaded'
        )
    return found


def _of_rule(rule: Rule, tools: list[Tool]) -> Iterator[str]:
    named = [tool for tool in tools if rule.names(tool.name)]
    label = f'checkpoint "{rule.checkpoint_id}"'
    if not named:
        yield f"{label}: none of the tools that are loaded has a name like this; only programs elsewhere can meet it"
    for tool in named:
        for key, path in _filled_in(rule):
            if problem := _missing(tool, path):
                yield f'{label}: "{key}" fills in {".".join(path)}, but {problem}'
        for path in _judged(rule.when or ""):
            if problem := _missing(tool, path):
                yield f'{label}: "when" looks at {".".join(path)}, but {problem}, so that it always asks'


def _filled_in(rule: Rule) -> Iterator[tuple[str, tuple[str, ...]]]:
    templates = {"description_template": rule.description_template, "link_template": rule.link_template}
    for key, template in templates.items():
        for path in dict.fromkeys(each[:2] for each in placeholder_names(template or "")):
            yield key, path


def _judged(when: str) -> list[tuple[str, ...]]:
    """The names that a condition counts on: not those that it first asks for, with `has(args.x)`."""
    code = _QUOTED.sub("''", when)
    asked_for = {found for has in _ASKED_FOR.findall(code) for found in _LOOKED_AT.findall(has)}
    return [path for path in dict.fromkeys(_LOOKED_AT.findall(code)) if path not in asked_for]


def _missing(tool: Tool, path: tuple[str, ...]) -> str | None:
    if path[0] == "facts":
        return None if tool.facts is not None else f"{tool.name} looks up no facts"
    known = tool.signature.schema.get("properties", {})
    return None if len(path) < 2 or path[1] in known else f"{tool.name} has no such argument"
