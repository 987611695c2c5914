from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from agent.domain import checkpoint_fields
from agent.domain.field_constraints import Between, Constraint, Exact, Fits, OneOf, exact_number
from agent.domain.request_view import RequestView
from slackbot.cards.vote_forms import reason_of

PREFIX = "signoff:grant"
INPUT = "signoff:grant_input"
MAX_INPUTS = 30

_RANGE = re.compile(r"\s*(-?[0-9]+(?:\.[0-9]+)?)\s*\.\.\s*(-?[0-9]+(?:\.[0-9]+)?)\s*\Z", re.ASCII)
_NO_RANGE = "Write the value of this call, or a range such as 1 .. 500."


@dataclass(frozen=True, slots=True)
class OpenField:
    """An argument or fact that may be freed, by number bounds, ``choices`` or a ``pattern``."""

    root: str
    name: str
    value: Any
    choices: tuple[Any, ...] = ()
    pattern: str | None = None

    @property
    def path(self) -> str:
        return f"{self.root}.{self.name}"


@dataclass(frozen=True, slots=True)
class GrantTerms:
    arguments: Mapping[str, Constraint]
    facts: Mapping[str, Constraint] | None
    anyone: bool
    lasts: timedelta
    max_uses: int
    sum_of: str | None
    max_sum: Decimal | None


def open_fields(view: RequestView, choices: Mapping[str, Sequence[Any]]) -> list[OpenField]:
    """Fields that may be freed, as many as the form can hold."""
    free = dict(view.rule.grant_free)
    found: list[OpenField] = []
    for root, values in (("args", view.action.arguments), ("facts", view.facts or {})):
        for name, value in values.items():
            pattern = free.get(f"{root}.{name}")
            offered = tuple(choices.get(name, ())) if root == "args" else ()
            if isinstance(value, bool):
                found.append(OpenField(root, name, value, (True, False)))
            elif offered:
                found.append(OpenField(root, name, value, offered))
            elif exact_number(value) is not None:
                found.append(OpenField(root, name, value))
            elif isinstance(value, str) and pattern is not None:
                found.append(OpenField(root, name, value, pattern=pattern))
    return found[:MAX_INPUTS]


def entered_grant(submitted: Mapping[str, Any]) -> str:
    values = submitted["state"]["values"]
    found: dict[str, Any] = {}
    for block_id, inputs in values.items():
        name = block_id.removeprefix(f"{PREFIX}:")
        if block_id != name:
            found[name] = _entered(inputs.get(INPUT) or {})
    reason = reason_of(submitted)
    return json.dumps({**found, **({"reason": reason} if reason else {})}, separators=(",", ":"))


def read_grant(
    view: RequestView, entered: Mapping[str, Any], choices: Mapping[str, Sequence[Any]]
) -> tuple[GrantTerms | None, dict[str, str]]:
    """The errors are by block_id."""
    errors: dict[str, str] = {}
    arguments: dict[str, Constraint] = {name: Exact(each) for name, each in view.action.arguments.items()}
    facts: dict[str, Constraint] = {name: Exact(each) for name, each in (view.facts or {}).items()}
    for at, field in enumerate(open_fields(view, choices)):
        try:
            constraint = _constraint(field, entered.get(f"field:{at}"))
        except ValueError as problem:
            errors[f"{PREFIX}:field:{at}"] = str(problem)
        else:
            (arguments if field.root == "args" else facts)[field.name] = constraint
    lasts, uses, total = timedelta(), 0, None
    try:
        lasts = checkpoint_fields.duration(str(entered.get("lasts") or "").strip())
    except ValueError as problem:
        errors[f"{PREFIX}:lasts"] = f"This {problem}."
    try:
        uses = int(str(entered.get("uses") or ""))
    except ValueError:
        errors[f"{PREFIX}:uses"] = "This must be a whole number."
    sum_of, written = entered.get("sum_of") or None, str(entered.get("sum") or "").strip()
    try:
        total = Decimal(written) if written else None
    except InvalidOperation:
        errors[f"{PREFIX}:sum"] = "This must be a number."
    if (sum_of is None) != (total is None) and f"{PREFIX}:sum" not in errors:
        errors[f"{PREFIX}:sum"] = "A total needs a number to add up, and a maximum."
    if total is not None and (not total.is_finite() or Decimal(repr(float(total))) != total):
        errors[f"{PREFIX}:sum"] = "This must be a number of at most 15 digits."
    if errors:
        return None, errors
    anyone = entered.get("whom") == "anyone"
    return GrantTerms(
        arguments, None if view.facts is None else facts, anyone, lasts, uses, sum_of, total
    ), {}


def number_text(number: Any) -> str:
    return json.dumps(number)


def _entered(state: Mapping[str, Any]) -> Any:
    if "selected_options" in state:
        return [each["value"] for each in state["selected_options"] or ()]
    if "selected_option" in state:
        return (state["selected_option"] or {}).get("value")
    return state.get("value")


def _constraint(field: OpenField, entered: Any) -> Constraint:
    """Raises ValueError with a sentence."""
    if entered is None:
        return Exact(field.value)
    if field.pattern is not None:
        return Fits(field.pattern) if entered == "free" else Exact(field.value)
    if field.choices:
        chosen = [
            field.choices[int(n)] for n in entered if str(n).isdecimal() and int(n) < len(field.choices)
        ]
        if not chosen:
            raise ValueError("Choose at least one.")
        return Exact(chosen[0]) if len(chosen) == 1 else OneOf(tuple(chosen))
    typed = str(entered)
    if found := _RANGE.match(typed):
        low, high = Decimal(found[1]), Decimal(found[2])
        if low > high:
            raise ValueError("The first bound must not be greater than the second.")
        return Between(low, high)
    if typed.strip() == number_text(field.value):
        return Exact(field.value)
    raise ValueError(_NO_RANGE)
