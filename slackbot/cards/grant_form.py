"""The form of a grant: what it asks, and what was entered.

Fields without an input stay exact.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from agent.domain import checkpoint_fields
from agent.domain.field_constraints import (
    Between,
    Constraint,
    Exact,
    FieldValue,
    Fits,
    OneOf,
    exact_number,
    keeps_exactly,
)
from agent.domain.request import Verdict
from agent.domain.request_view import RequestView
from agent.domain.rules import GrantLimits
from slackbot.cards import blocks, inert, scalars
from slackbot.cards.modals import modal
from slackbot.cards.request import title
from slackbot.cards.values import CALLBACK_GRANT, Json
from slackbot.cards.vote_forms import own_words_input, reason_of

_INTRO = (
    "This approves the request. Until the grant ends, every later call that fits these values runs without asking "
    "anybody. Values without an input below stay exactly as they are."
)
_ONE_NUMBER = "Exactly this. For a range, write both bounds: 1 .. 500"


def grant_modal(
    view: RequestView, limits: GrantLimits, choices: Mapping[str, Sequence[Any]], carry: str
) -> Json:
    """The first step. `view` has true values: a call with hidden values has no such form."""
    found = open_fields(view, choices)
    head = blocks.rich_text(
        blocks.section(blocks.text(inert.line(title(view), 600), bold=True)),
        blocks.section(blocks.text(_INTRO)),
    )
    rows = [
        *blocks.with_ids([head], carry),
        *(_input(at, each) for at, each in enumerate(found)),
        _requester_input(view),
        _plain_input(
            "lasts", "For how long", duration_text(min(timedelta(hours=8), limits.max_for)), _longest(limits)
        ),
        _plain_input(
            "uses", "How many times", str(min(10, limits.max_uses)), f"At most {limits.max_uses:,}."
        ),
        *_sum(found),
    ]
    if Verdict.APPROVE in view.rule.reason_required:
        rows.append(own_words_input("Note", required=True, hint=None, focus=False))
    return modal(
        "Allow similar calls",
        rows,
        close="Cancel",
        submit="Preview",
        callback=CALLBACK_GRANT,
        carry=carry,
    )


def duration_text(length: timedelta) -> str:
    """A duration as people write it: `8h`, `1h30m`."""
    minutes, seconds = divmod(int(length.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (seconds, "s"))
    return "".join(f"{amount}{unit}" for amount, unit in parts if amount) or "1s"


def _input(at: int, field: OpenField) -> Json:
    block_id, label = f"{PREFIX}:field:{at}", field.path
    if field.pattern is not None:
        options = [
            blocks.option(f"Exactly {inert.shortened(str(field.value), 50)}", "exact"),
            blocks.option(f"Any that fits {field.pattern}", "free"),
        ]
        return _select(block_id, label, options, hint=f"Pattern of the checkpoint: {field.pattern}")
    if field.choices:
        options = [blocks.option(scalars.words(each), str(n)) for n, each in enumerate(field.choices)]
        given = FieldValue(field.value)
        chosen = [options[n] for n, each in enumerate(field.choices) if Exact(each).allows(given)]
        element = {"type": "multi_static_select", "action_id": INPUT, "options": options}
        return blocks.input_block(
            block_id, label, element | ({"initial_options": chosen} if chosen else {}), hint="One of these."
        )
    return _plain_input(f"field:{at}", label, number_text(field.value), _ONE_NUMBER)


def _plain_input(name: str, label: str, begin: str, hint: str, *, optional: bool = False) -> Json:
    element = {"type": "plain_text_input", "action_id": INPUT, "max_length": 60}
    element |= {"initial_value": begin} if begin else {}
    return blocks.input_block(f"{PREFIX}:{name}", label, element, optional=optional, hint=hint)


def _select(block_id: str, label: str, options: list[Json], *, hint: str | None = None) -> Json:
    element = {
        "type": "static_select",
        "action_id": INPUT,
        "options": options,
        "initial_option": options[0],
    }
    return blocks.input_block(block_id, label, element, hint=hint)


def _requester_input(view: RequestView) -> Json:
    same = "For the same requester" if view.requester else "Only for calls without a requester in Slack"
    options = [blocks.option(same, "same"), blocks.option("For anyone", "anyone")]
    element = {"type": "radio_buttons", "action_id": INPUT, "options": options, "initial_option": options[0]}
    return blocks.input_block(f"{PREFIX}:whom", "Requester", element)


def _sum(found: Sequence[OpenField]) -> list[Json]:
    numbers = [each.path for each in found if exact_number(each.value) is not None and not each.choices]
    options = [blocks.option(path, path) for path in numbers if len(path) <= blocks.OPTION_LIMIT]
    if not options:
        return []
    element = {"type": "static_select", "action_id": INPUT, "options": options}
    return [
        blocks.input_block(f"{PREFIX}:sum_of", "Total of", element, optional=True),
        _plain_input("sum", "Maximum total", "", "Needed if a number is chosen above.", optional=True),
    ]


def _longest(limits: GrantLimits) -> str:
    return f"Such as 8h or 30m; at most {duration_text(limits.max_for)}."


PREFIX = "signoff:grant"
INPUT = "signoff:grant_input"
MAX_INPUTS = 30

_RANGE = re.compile(r"\s*(-?[0-9]+(?:\.[0-9]+)?)\s*\.\.\s*(-?[0-9]+(?:\.[0-9]+)?)\s*\Z", re.ASCII)
_TOO_LONG = "must be a number of at most 15 digits"
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
    """A grant's terms as entered in its form; `facts` is None where the request had none."""

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
    """Return what was entered in the grant form as compact JSON, for the preview to carry along."""
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
    if total is not None and not keeps_exactly(total):
        errors[f"{PREFIX}:sum"] = f"This {_TOO_LONG}."
    if errors:
        return None, errors
    anyone = entered.get("whom") == "anyone"
    return GrantTerms(
        arguments, None if view.facts is None else facts, anyone, lasts, uses, sum_of, total
    ), {}


def number_text(number: Any) -> str:
    """Write a number as JSON, as the grant form shows it and compares what is typed with it."""
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
        if not (keeps_exactly(low) and keeps_exactly(high)):
            raise ValueError(f"A bound {_TOO_LONG}.")
        return Between(low, high)
    if typed.strip() == number_text(field.value):
        return Exact(field.value)
    raise ValueError(_NO_RANGE)
