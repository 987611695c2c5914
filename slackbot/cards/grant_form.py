"""The grant form: what may differ from the approved call, for whom, how often, until when, up to what sum.

Fields without an input stay exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from agent.domain.field_constraints import Exact, FieldValue, exact_number
from agent.domain.request import Verdict
from agent.domain.request_view import RequestView
from agent.domain.rules import GrantLimits
from slackbot.cards import blocks, inert, scalars
from slackbot.cards.grant_entry import INPUT, PREFIX, OpenField, number_text, open_fields
from slackbot.cards.modals import modal
from slackbot.cards.request import title
from slackbot.cards.values import CALLBACK_GRANT, REASON_BLOCK, REASON_INPUT, Json
from slackbot.cards.vote_forms import MAX_REASON

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
            "uses",
            "How many times",
            str(min(10, limits.max_uses)),
            f"At most {limits.max_uses:,}.",
        ),
        *_sum(found),
    ]
    if Verdict.APPROVE in view.rule.reason_required:
        element = {
            "type": "plain_text_input",
            "action_id": REASON_INPUT,
            "multiline": True,
            "max_length": MAX_REASON,
        }
        rows.append(blocks.input_block(REASON_BLOCK, "Note", element))
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
