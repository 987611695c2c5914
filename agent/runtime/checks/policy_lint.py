"""Find parts of a checkpoints file that match no loaded tool, mostly misspelt names.

Not errors: external programs may ask for such tools, a missing value shows as such, a failing condition asks. Also
finds limits on values that the model writes, where facts are available, conditions on parts of shell commands, and
deadlines in which nobody can decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from agent.domain import facts
from agent.domain.condition_text import HIDDEN, comparisons, numbers_as_text
from agent.domain.people import CHANNEL
from agent.domain.policy import Policy
from agent.domain.rules import Checkpoint, Denial, ObservedRule, Rule, Terms
from agent.domain.spelling import meant
from agent.domain.templates import placeholder_names
from agent.domain.toml_text import Lines
from agent.runtime.agents import Registry
from agent.runtime.checks.command_lint import mentions_command, partial_comparison
from agent.runtime.tool import Tool
from signoff import formats
from signoff.gate.coding_agents import SHELLS

_Finding = tuple[str, int, str | None, str]
"""Table, index among those of its name, key, and sentence."""

_ASKED_FOR = re.compile(r"\bhas\s*\([^()]*\)")
_PATH = re.compile(r"\b(?:args|facts)(?:\.[A-Za-z_]\w*)+")
_COUNT = re.compile(r"(?i)(?:\.|_|\b)(?:count|qty|quantity|rows|records|number|size)(?:_|\b)")
_ANY_TOOL = "any_tool_of_any_program"
_LOOKED_AT = re.compile(r"\b(args|facts)\.([A-Za-z_]\w*)")


def lint_policy(policy: Policy, registry: Registry, filename: str, now: datetime | None = None) -> list[str]:
    """Sorted lines `checkpoints.toml:12: …`; names only with loaded agents, ended observations only with ``now``."""
    lines = Lines(policy.source)
    found = [
        (lines.of(table, index, key), sentence) for table, index, key, sentence in _all(policy, registry)
    ]
    for rule, sentence in lapsed_observations(policy, now) if now else ():
        index = policy.in_file_order.index(rule)
        found.append((lines.of("checkpoint", index, "observe_until"), sentence))
    return [f"{filename}:{line}: {sentence}" for line, sentence in sorted(found, key=lambda each: each[0])]


def few_reviewers(policy: Policy, members: Mapping[str, Collection[str]]) -> list[tuple[int, str]]:
    """Lines and sentences about user groups with too few ``members`` for one who asks and one who gives a reason."""
    lines, seen = Lines(policy.source), set[str]()
    found = []
    for table, index, terms, label in _all_terms(policy):
        sentence = _too_few(terms, members)
        if sentence is not None and sentence not in seen:
            seen.add(sentence)  # most checkpoints have the approvers of the defaults
            found.append((lines.of(table, index, "approvers"), f"{label}: {sentence}"))
    return found


def _all_terms(policy: Policy) -> Iterator[tuple[str, int, Terms, str]]:
    """Table, index among those of its name, terms, and label."""
    yield "defaults", 0, policy.defaults, "[defaults]"
    for index, each in enumerate(policy.in_file_order):
        if isinstance(each, Rule):
            yield "checkpoint", index, each, f'checkpoint "{each.checkpoint_id}"'


def user_groups(policy: Policy) -> list[str]:
    """Those among the approvers."""
    named = {name for each in (policy.defaults, *policy.all_rules) for name in each.approvers}
    return sorted(filter(_is_group, named))


def _is_group(name: str) -> bool:
    return name.startswith("S")


def _too_few(terms: Terms, members: Mapping[str, Collection[str]]) -> str | None:
    groups = [name for name in terms.approvers if _is_group(name)]
    if not groups or CHANNEL in terms.approvers or not members.keys() >= set(groups):
        return None
    people = {person for name in groups for person in members[name]} | set(terms.approvers) - set(groups)
    lifted = {
        "prevent_self_review": ("whoever asks", not terms.prevent_self_review),
        "adviser_may_approve": ("whoever gave a reason or a note", terms.adviser_may_approve),
    }
    left_out = {key: who for key, (who, free) in lifted.items() if not free}
    needed = terms.approvals_required + len(left_out)
    if len(people) >= needed or not left_out:
        return None
    have = f"{' with '.join(groups)}: {len(people)} reviewers, {terms.approvals_required} must approve"
    why = f"{' and '.join(left_out.values())} cannot approve what follows"
    return f"{have}; {why}, so have at least {needed}, or set {' or '.join(left_out)}"


def _all(policy: Policy, registry: Registry) -> Iterator[_Finding]:
    tools = list({tool.name: tool for agent in registry for tool in agent.tools}.values())
    named = policy.defaults.default_agent
    if named and any(registry) and registry.find(named) is None:
        words = f'"default_agent" names {named}, which is not among the loaded agents'
        hint = meant(named, (agent.name for agent in registry))
        yield "defaults", 0, "default_agent", f"[defaults]: {words}{hint}"
    for never in _never_there(policy.defaults.money, tools):
        words = f'"money" names {never}, which none of the loaded tools has'
        yield "defaults", 0, "money", f"[defaults]: {words}; only other programs can have it"
    for index, checkpoint in enumerate(policy.in_file_order):
        for key, sentence in _of_checkpoint(checkpoint, tools, policy.defaults.money):
            yield "checkpoint", index, key, f'checkpoint "{checkpoint.checkpoint_id}": {sentence}'
    yield from _short_deadlines(policy)
    yield from _partial_comparisons(policy, tools)
    for measure in _bounds(policy):
        if (path := _claimed(measure.text, measure.money)) and _could_have_facts(tools, measure.names):
            words = f'"{measure.key}" reads {path}, which the model writes'
            instead = "use facts, which the tool, the program or [[facts]] looks up"
            yield measure.table, measure.index, measure.key, f"{measure.label}: {words}; {instead}"
    own = {tool.name for tool in tools}
    for index, each in enumerate(policy.lookups):
        if each.tool in own:
            words = f"{each.tool} is a tool of the agents that are loaded, which looks up its own facts"
            yield facts.TABLE, index, None, f"[[facts]]: {words}"


def _partial_comparisons(policy: Policy, tools: list[Tool]) -> Iterator[_Finding]:
    for index, rule in enumerate(policy.in_file_order):
        if isinstance(rule, Denial):
            continue
        if (part := partial_comparison(rule.when or "")) and not _is_asked_anyway(policy, rule, tools):
            words = f'"when" looks at a part of a command: {part}; what it does not look at can do anything'
            instead = "compare whole commands: args.command in ['git status', 'ls']"
            yield "checkpoint", index, "when", f'checkpoint "{rule.checkpoint_id}": {words}; {instead}'


def _is_asked_anyway(policy: Policy, rule: Checkpoint, tools: list[Tool]) -> bool:
    """A checkpoint without a condition catches what this one lets pass, so that it only chooses among reviewers."""
    known = [name for name in (*SHELLS, *(tool.name for tool in tools)) if rule.names(name)]
    always = [each for each in policy.rules if each.when is None]
    if any(each.action_pattern == rule.action_pattern for each in always):
        return True
    return bool(known) and all(any(each.names(name) for each in always) for name in known)


def lapsed_observations(policy: Policy, now: datetime) -> list[tuple[Rule, str]]:
    """Return the checkpoints whose observation is over, each with a sentence on what to do about it."""
    return [(each.rule, _lapsed(each)) for each in policy.observed if each.until <= now]


def _lapsed(observed: ObservedRule) -> str:
    over = f"does nothing, it was observed until {formats.moment(observed.until)}"
    instead = 'remove "mode" and "observe_until" to enforce it, or remove it'
    return f'checkpoint "{observed.rule.checkpoint_id}": {over}; {instead}'


@dataclass(frozen=True)
class _Bound:
    table: str
    index: int
    key: str
    label: str
    names: Callable[[str], bool]
    text: str
    money: tuple[str, ...]


def _bounds(policy: Policy) -> Iterator[_Bound]:
    for index, each in enumerate(policy.in_file_order):
        label, text = f'checkpoint "{each.checkpoint_id}"', HIDDEN.sub("''", each.when or "")
        money = each.money if isinstance(each, Rule) else ()
        yield _Bound("checkpoint", index, "when", label, each.names, text, money)
    for index, limit in enumerate(policy.limits):
        declared = policy.defaults.money
        yield _Bound("limit", index, "of", f'limit "{limit.name}"', limit.names, limit.of, declared)


def _claimed(text: str, money: tuple[str, ...]) -> str | None:
    paths = [match[0] for match in _PATH.finditer(text)]
    if any(path.startswith("facts.") for path in paths):
        return None
    measured = (
        path for path in paths if path in money or formats.sounds_like_money(path) or _COUNT.search(path)
    )
    return next(measured, None)


def _could_have_facts(tools: list[Tool], names: Callable[[str], bool]) -> bool:
    """Facts may come from a tool or a program."""
    named = [tool for tool in tools if names(tool.name)]
    return not named or any(tool.facts is not None for tool in named)


def _of_checkpoint(
    checkpoint: Checkpoint, tools: list[Tool], money: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """``money``: what the defaults declare."""
    named = [tool for tool in tools if checkpoint.names(tool.name)]
    if tools and not named:
        hint = meant(checkpoint.action_pattern, (tool.name for tool in tools))
        words = f'"action_pattern" matches none of the loaded tools{hint}'
        yield "action_pattern", f"{words}; only other programs can match it"
    if isinstance(checkpoint, Denial):
        yield from _of_denial(checkpoint)
    elif isinstance(checkpoint, Rule):
        yield from _of_rule(checkpoint, named, checkpoint.money if checkpoint.money != money else ())
    yield from _bounds_in_quotes(checkpoint.when or "", named)
    outcome = "denies" if isinstance(checkpoint, Denial) else "asks"
    for tool in named:
        for path in _judged(checkpoint.when or ""):
            if problem := _missing(tool, path):
                yield "when", f'"when" looks at {".".join(path)}, but {problem}, so that it always {outcome}'
        for name, literal in comparisons(checkpoint.when or ""):
            if problem := _of_another_type(tool, name, literal):
                yield "when", f'"when" compares args.{name} with {literal}, but {problem}'


def _bounds_in_quotes(when: str, named: list[Tool]) -> Iterator[tuple[str, str]]:
    """Those of an unknown type: an argument may be a text that is compared so, and a number is told by its type."""
    for path, literal, number in numbers_as_text(when):
        if not any(_type(tool, path.removeprefix("args.")) in _TYPES for tool in named):
            words = f'"when" compares {path} with the text {literal}, letter by letter'
            yield "when", f"{words}; if it is a number, write {number}"


def _of_denial(denial: Denial) -> Iterator[tuple[str, str]]:
    """What denies more, or less, than its author may think."""
    unsure = _judged(denial.when or "")
    if unsure and denial.names(_ANY_TOOL):
        path = ".".join(unsure[0])
        words = f'"when" reads {path}, and "action_pattern" names every tool: each call without it is denied'
        yield "when", f"{words}; write has({path}) && … to deny only those that have it"
    if mentions_command(denial.when or ""):
        words = '"when" recognizes commands by their text, which is a guard rail and not a wall'
        instead = (
            "`rm -rf` can be written `rm -r -f`, so let another checkpoint ask about what it does not deny"
        )
        yield "when", f"{words}: {instead}"


def _of_rule(rule: Rule, named: list[Tool], money: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for each in _never_there(money, named):
        problem = (
            _missing(named[0], tuple(each.split("."))) if len(named) == 1 else "none of its tools has it"
        )
        yield "money", f'"money" names {each}, but {problem}'
    for tool in named:
        for key, path in _filled_in(rule):
            if problem := _missing(tool, path):
                yield key, f'"{key}" fills in {".".join(path)}, but {problem}'


def _never_there(paths: tuple[str, ...], tools: list[Tool]) -> list[str]:
    """Paths that none of these tools can have."""
    return [path for path in paths if tools and all(_missing(tool, tuple(path.split("."))) for tool in tools)]


def _filled_in(rule: Rule) -> Iterator[tuple[str, tuple[str, ...]]]:
    templates = {"description_template": rule.description_template, "link_template": rule.link_template}
    for key, template in templates.items():
        for path in dict.fromkeys(each[:2] for each in placeholder_names(template or "")):
            yield key, path


def _judged(when: str) -> list[tuple[str, ...]]:
    """Skips names first checked with `has(args.x)`."""
    code = HIDDEN.sub("''", when)
    asked_for = {found for has in _ASKED_FOR.findall(code) for found in _LOOKED_AT.findall(has)}
    return [path for path in dict.fromkeys(_LOOKED_AT.findall(code)) if path not in asked_for]


_TYPES = {"string": "a text", "integer": "a whole number", "number": "a number", "boolean": "true or false"}


def _of_another_type(tool: Tool, name: str, literal: str) -> str | None:
    """Values of different types are never equal, so that `==` is always false, and lets every call pass."""
    kind = _type(tool, name)
    is_text = literal[-1] in "\"'"
    fitting = (
        {"string"} if is_text else {"boolean"} if literal in ("true", "false") else {"integer", "number"}
    )
    if kind not in _TYPES or kind in fitting:
        return None
    instead = f'"{literal}"' if kind == "string" else literal.strip("\"'")
    known = kind == "string" or instead in ("true", "false") or instead.lstrip("-").replace(".", "").isdigit()
    return f"in {tool.name} it is {_TYPES[kind]}{f'; write {instead}' if known else ''}"


def _type(tool: Tool, name: str) -> str | None:
    kind: str | None = tool.signature.schema.get("properties", {}).get(name, {}).get("type")
    return kind


_SHORT = timedelta(minutes=1)


def _short_deadlines(policy: Policy) -> Iterator[_Finding]:
    """A number without a unit is seconds, which few mean."""
    for table, index, terms, label in _all_terms(policy):
        if table == "checkpoint" and terms.timeout == policy.defaults.timeout:
            continue
        if terms.timeout < _SHORT:
            seconds = f"{terms.timeout.total_seconds():g}"
            words = f'"timeout" is {seconds} seconds, in which hardly anybody can decide'
            yield table, index, "timeout", f'{label}: {words}; {seconds} hours are "{seconds}h"'


def _missing(tool: Tool, path: tuple[str, ...]) -> str | None:
    if path[0] == "facts":
        return None if tool.facts is not None else f"{tool.name} looks up no facts"
    known = tool.signature.schema.get("properties", {})
    if len(path) < 2 or path[1] in known:
        return None
    return f"{tool.name} has no such argument{meant(path[1], known)}"
