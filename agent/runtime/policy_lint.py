"""What a checkpoints file says that fits none of the loaded tools: misspelt names, most of the time.

No error: programs elsewhere may ask for it, a missing value shows as such, a failing condition asks. But its author
meant something else. And limits on what the model itself says, where somebody could look up what is true.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from agent.domain.link_template import placeholder_names
from agent.domain.policy import Policy, Rule
from agent.runtime.agents import Registry
from agent.runtime.tool import Tool
from signoff import formats

_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_ASKED_FOR = re.compile(r"\bhas\s*\([^()]*\)")
_PATH = re.compile(r"\b(?:args|facts)(?:\.[A-Za-z_]\w*)+")
_COUNT = re.compile(r"(?i)(?:\.|_|\b)(?:count|qty|quantity|rows|records|number|size)(?:_|\b)")
_LOOKED_AT = re.compile(r"\b(args|facts)\.([A-Za-z_]\w*)")


def lint_policy(policy: Policy, registry: Registry) -> list[str]:
    """A sentence for each, in the order of the checkpoints. Names are judged only where agents are loaded."""
    tools = list({tool.name: tool for agent in registry for tool in agent.tools}.values())
    found = [sentence for rule in policy.rules for sentence in _of_rule(rule, tools)] if tools else []
    for label, key, names, text in _measures(policy):
        if (path := _claimed(text)) and _could_have_facts(tools, names):
            found.append(
                f'{label}: "{key}" goes by {path}, which the model says; put it on facts, which the tool, the program '
                "or [[facts]] looks up"
            )
    own = {tool.name for tool in tools}
    found += [
        f"[[facts]]: {each.tool} is a tool of the agents that are loaded, which looks up its own facts"
        for each in policy.lookups
        if each.tool in own
    ]
    named = policy.defaults.default_agent
    if named and any(registry) and registry.find(named) is None:
        found.insert(
            0, f'[defaults]: "default_agent" names {named}, which is not among the agents that are loaded'
        )
    return found


def _measures(policy: Policy) -> Iterator[tuple[str, str, Callable[[str], bool], str]]:
    """What sets a bound: its label, its key, whether it names a tool, and the text with paths in it."""
    for rule in policy.rules:
        yield f'checkpoint "{rule.checkpoint_id}"', "when", rule.names, _QUOTED.sub("''", rule.when or "")
    for limit in policy.limits:
        yield f'limit "{limit.name}"', "of", limit.names, limit.of


def _claimed(text: str) -> str | None:
    """The first argument in it that is money or a count by its name, unless facts are read as well."""
    paths = [match[0] for match in _PATH.finditer(text)]
    if any(path.startswith("facts.") for path in paths):
        return None
    return next((path for path in paths if formats.amount(path, 1) or _COUNT.search(path)), None)


def _could_have_facts(tools: list[Tool], names: Callable[[str], bool]) -> bool:
    """Whether some call that it means has facts: a tool looks them up, or a program could tell them."""
    named = [tool for tool in tools if names(tool.name)]
    return not named or any(tool.facts is not None for tool in named)


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
