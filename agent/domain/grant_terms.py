"""What a reviewer may allow in advance: within `[grants]`, and what the checkpoint lets vary."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, assert_never

from agent.domain.field_constraints import Between, Constraint, Exact, FieldValue, Fits, OneOf, exact_number
from agent.domain.rules import GrantLimits, Rule
from signoff.json_paths import is_redacted

MAX_LIVE = 50
"""Per agent and tool."""


def limits_problem(
    limits: GrantLimits, lasts: timedelta, uses: int, sum_of: str | None, max_sum: Decimal | None
) -> str | None:
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
    return rule.model_copy(
        update={
            "when": None,
            "description_template": None,
            "link_template": None,
            "allow_edit": False,
            "allow_grants": False,
            "grant_free": (),
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
