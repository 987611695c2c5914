"""Grants: consent in advance, for calls like the one that reviewers approve.

A grant is the action of its own request, which says all that it allows, and takes effect once approved. Each argument
and fact of a covered call must match; what cannot be compared does not. Objections name fields, never values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, assert_never

from agent.domain import eligibility
from agent.domain.eligibility import Reviewed
from agent.domain.facts import Facts
from agent.domain.field_constraints import (
    Between,
    Constraint,
    Exact,
    FieldValue,
    Fits,
    OneOf,
    constraint_as_json,
    exact_number,
    freed,
    json_number,
    number_in_words,
    read_constraint,
)
from agent.domain.judgement import Judgement
from agent.domain.limits import add
from agent.domain.people import Standing
from agent.domain.request import Verdict
from agent.domain.request_view import ANYONE, Behalf
from agent.domain.rules import GrantLimits, Rule
from signoff import formats
from signoff.formats import NO_MONEY, Money
from signoff.json_paths import is_redacted
from signoff.values import Action, Person, Risk

GRANT = "allow_similar"
"""A grant's request has it as action and `source`."""

GRANT_VERSION = "1"


@dataclass(frozen=True, slots=True)
class CallKind:
    """Must be identical in call and grant."""

    principal: str
    """`run`, or an API key: a key without a fixed agent may name any."""
    agent: str
    agent_version: str
    above: tuple[str, ...]
    """Root first."""
    tool: str
    version: str
    parameters: str | None
    """Digest in hex; ``None`` for programs."""
    checkpoint: str
    policy: str
    """Digest of the asking rule, in hex."""
    facts_source: str | None
    """``None``: the tool, or no facts."""


@dataclass(frozen=True)
class CallToCover:
    """A call that policy would ask people about, with all that a grant must match to cover it."""

    action: Action
    facts: Facts
    rule: Rule
    requester: Person | None
    agent: str
    agent_version: str
    above: tuple[str, ...] = ()
    signature: bytes | None = None
    principal: str = "run"
    judgement: Judgement | None = field(default=None, compare=False)
    """The evaluation that would ask, for the audit log."""

    @cached_property
    def kind(self) -> CallKind:
        return CallKind(
            principal=self.principal,
            agent=self.agent,
            agent_version=self.agent_version,
            above=self.above,
            tool=self.action.tool,
            version=self.action.tool_version,
            parameters=self.signature.hex() if self.signature else None,
            checkpoint=self.rule.checkpoint_id,
            policy=self.rule.digest.hex(),
            facts_source=self.facts.source.value if self.facts.source else None,
        )

    @cached_property
    def uncoverable(self) -> str | None:
        if not self.rule.allow_grants:
            return "its checkpoint allows no grants"
        if self.rule.risk >= Risk.CRITICAL:
            return "it is critical"
        if self.facts.failed:
            return "its facts could not be looked up"
        return None

    @cached_property
    def argument_values(self) -> Mapping[str, FieldValue]:
        return {name: FieldValue(value) for name, value in self.action.arguments.items()}

    @cached_property
    def fact_values(self) -> Mapping[str, FieldValue] | None:
        facts = self.facts.values
        return None if facts is None else {name: FieldValue(value) for name, value in facts.items()}


@dataclass(frozen=True, slots=True)
class Grant:
    """``requester``: the only one of its calls, unless ``anyone``."""

    kind: CallKind
    arguments: Mapping[str, Constraint]
    facts: Mapping[str, Constraint] | None
    anyone: bool
    requester: Person | None
    until: datetime
    max_uses: int
    sum_of: str | None = None
    """`args.amount`, `facts.price`."""
    max_sum: Decimal | None = None
    like: str = field(default="", compare=False)
    """The request on whose card it was made."""

    def as_action(self) -> Action:
        """Raises MalformedArguments."""
        named = ANYONE if self.anyone else str(self.requester) if self.requester else None
        content = {
            **asdict(self.kind),
            "above": list(self.kind.above),
            "arguments": _constraints_as_json(self.arguments),
            "facts": None if self.facts is None else _constraints_as_json(self.facts),
            "requester": named,
            "until": self.until.astimezone(UTC).isoformat(),
            "uses": self.max_uses,
            "sum_of": self.sum_of,
            "sum": None if self.max_sum is None else json_number(self.max_sum),
            "like": self.like,
        }
        return Action(GRANT, GRANT_VERSION, content)

    @classmethod
    def from_action(cls, action: Action) -> Grant:
        """Raises ValueError for anything that `as_action` would not make."""
        stored = action.arguments
        try:
            behalf, facts = Behalf.read(stored["requester"]), stored["facts"]
            kind = {each.name: stored[each.name] for each in fields(CallKind)}
            read = cls(
                kind=CallKind(**{**kind, "above": tuple(stored["above"])}),
                arguments=_constraints(stored["arguments"]),
                facts=None if facts is None else _constraints(facts),
                anyone=behalf.anyone,
                requester=behalf.requester,
                until=datetime.fromisoformat(stored["until"]),
                max_uses=int(stored["uses"]),
                sum_of=stored["sum_of"],
                max_sum=exact_number(stored["sum"]),
                like=stored["like"],
            )
            whole = read.as_action().canonical == action.canonical
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("is not a grant") from error
        if not whole:
            raise ValueError("is not a grant")
        return read

    def describe(self, money: Money = NO_MONEY) -> str:
        open_fields = [
            *freed(self.arguments, money.below("args")),
            *freed(self.facts or {}, money.below("facts")),
        ]
        same = "for the same requester" if self.requester else "without a requester in Slack"
        times = "once" if self.max_uses == 1 else f"{self.max_uses:,} times"
        total = (
            f", {self.sum_of} up to {number_in_words(self.max_sum, money.below(*self.sum_of.split('.')))} in total"
            if self.max_sum is not None and self.sum_of is not None
            else ""
        )
        until = formats.moment(self.until)
        return (
            f"Allow similar calls of {self.kind.tool} ({'; '.join(open_fields) or 'all the same'}) "
            f"{'for anyone' if self.anyone else same}, {times} until {until}{total}"
        )

    def objection(self, call: CallToCover) -> str | None:
        return call.uncoverable or _kind_mismatch(self.kind, call.kind) or self.mismatch(call)

    def mismatch(self, call: CallToCover) -> str | None:
        """The call's kind is not compared."""
        for_another = not self.anyone and call.requester != self.requester
        return (
            ("the requester is another person" if for_another else None)
            or _mismatch("args", self.arguments, call.argument_values)
            or _facts_mismatch(self.facts, call.fact_values)
            or self._uncountable(call)
        )

    def amount(self, call: CallToCover) -> Decimal:
        return (_field(self.sum_of, call) if self.sum_of else None) or Decimal(0)

    def exhausted(self, now: datetime, uses: int, used_sum: Decimal, amount: Decimal) -> str | None:
        """``now`` is database time."""
        if now >= self.until:
            return "it has expired"
        if uses >= self.max_uses:
            return "it is used up"
        if self.max_sum is not None and add(used_sum, amount) > self.max_sum:
            return "its sum would be exceeded"
        return None

    def _uncountable(self, call: CallToCover) -> str | None:
        if self.sum_of is None:
            return None
        amount = _field(self.sum_of, call)
        return None if amount is not None and amount >= 0 else f"{self.sum_of} cannot be added up"


def granters_refusal(granters: Iterable[Standing], call: Reviewed) -> Standing | None:
    """The first granter who could not approve this call now."""
    for each in granters:
        if eligibility.reviewer_refusal(call, each, Verdict.APPROVE) is not None:
            return each
    return None


def _kind_mismatch(granted: CallKind, call: CallKind) -> str | None:
    if granted == call:
        return None
    for name, words in _KIND_WORDS:
        if getattr(granted, name) != getattr(call, name):
            return words
    return "it is a different kind of call"


_KIND_WORDS = (
    ("principal", "the program that asks differs"),
    ("agent", "its agent differs"),
    ("agent_version", "its agent's version differs"),
    ("above", "its parent agent differs"),
    ("tool", "its tool differs"),
    ("version", "its tool's version differs"),
    ("parameters", "its tool's parameters differ"),
    ("checkpoint", "its checkpoint differs"),
    ("policy", "the rule of its checkpoint differs"),
    ("facts_source", "the source of its facts differs"),
)


def _facts_mismatch(
    granted: Mapping[str, Constraint] | None, facts: Mapping[str, FieldValue] | None
) -> str | None:
    if granted is None or facts is None:
        return None if granted is None and facts is None else "its facts differ"
    return _mismatch("facts", granted, facts)


def _mismatch(root: str, granted: Mapping[str, Constraint], values: Mapping[str, FieldValue]) -> str | None:
    if granted.keys() != values.keys():
        return f"its {root} differ"
    for name, constraint in sorted(granted.items(), key=_is_exact):  # compares long texts last
        if not constraint.allows(values[name]):
            return f"{root}.{name} is not allowed by it"
    return None


def _is_exact(named: tuple[str, Constraint]) -> bool:
    return isinstance(named[1], Exact)


def _field(path: str, call: CallToCover) -> Decimal | None:
    root, _, name = path.partition(".")
    values = call.action.arguments if root == "args" else call.facts.values
    return exact_number((values or {}).get(name))


def _constraints_as_json(constraints: Mapping[str, Constraint]) -> dict[str, Any]:
    return {name: constraint_as_json(each) for name, each in constraints.items()}


def _constraints(stored: Mapping[str, Any]) -> dict[str, Constraint]:
    return {name: read_constraint(each) for name, each in stored.items()}


MAX_LIVE = 50
"""Per agent and tool."""


def limits_problem(
    limits: GrantLimits, lasts: timedelta, uses: int, sum_of: str | None, max_sum: Decimal | None
) -> str | None:
    """Return a sentence on how a grant breaks the limits of `[grants]`, or None if it keeps them."""
    if not timedelta() < lasts <= limits.max_for:
        return f"A grant can last at most {_hours(limits.max_for)}, and not less than a second."
    if not 1 <= uses <= limits.max_uses:
        return f"A grant can be used 1 to {limits.max_uses:,} times."
    if (sum_of is None) != (max_sum is None):
        return "A sum needs a number to add up, and a maximum."
    return None if max_sum is None or max_sum >= 0 else "A sum cannot be negative."


def freeing_problem(
    rule: Rule, root: str, name: str, value: Any, constraint: Constraint, choices: Sequence[Any]
) -> str | None:
    """Return a sentence if a field may not vary in this way, as hidden fields never may, or None."""
    match constraint:
        case Exact():
            allowed = constraint.allows(FieldValue(value))
        case Between():
            allowed = exact_number(value) is not None
        case OneOf(values):
            offered = OneOf((True, False) if isinstance(value, bool) else tuple(choices) or (value,))
            allowed = all(offered.allows(FieldValue(each)) for each in values)
        case Fits(pattern):
            allowed = dict(rule.grant_free).get(f"{root}.{name}") == pattern
        case _:
            assert_never(constraint)
    hidden = not isinstance(constraint, Exact) and is_redacted((name,), rule.redact, root)
    return None if allowed and not hidden else f"{root}.{name} cannot be freed in this way."


def _money(paths: Sequence[str]) -> tuple[str, ...]:
    """Where a grant, whose arguments are constraints, has the values of these paths."""
    return tuple(
        ".".join(("args", "arguments" if root == "args" else "facts", name, kind, *below))
        for root, name, *below in (path.split(".") for path in paths)
        for kind in (("is", "one_of") if below else ("is", "one_of", "from", "to"))
    )


def rule_of_grant(rule: Rule) -> Rule:
    """Return the rule of a grant's own request: the call's, without condition, edits or escalation."""
    return rule.model_copy(
        update={
            "when": None,
            "description_template": None,
            "link_template": None,
            "allow_edit": False,
            "allow_grants": False,
            "grant_free": (),
            "hide": (),
            "money": _money(rule.money),
            "on_timeout": "expire",
            "escalate_to": (),
            "email": (),
            "email_facts": (),
        }
    )


def _hours(length: timedelta) -> str:
    hours = length.total_seconds() / 3600
    return f"{hours:,g} hours"
