"""The form that decides several requests together: each in full with a tick of its own, one verdict, one reason."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal
from uuid import UUID

from agent.domain.masked_action import MaskedAction
from agent.domain.request import Verdict
from agent.domain.request_view import RequestView
from agent.domain.together import obstacle
from agent.domain.verdicts import ON_APPROVAL, VERDICTS
from signoff.values import Person
from slackbot.cards import arguments, blocks, facts, inert, limits, status_words, tree
from slackbot.cards.buttons import subject
from slackbot.cards.modals import modal
from slackbot.cards.request import unreadable, without_command_in_title
from slackbot.cards.values import (
    ACTION_DECIDE_TOGETHER,
    ACTION_OPEN,
    CALLBACK_TOGETHER,
    CHOICE_BLOCK,
    ButtonValue,
    Json,
    button_value,
    page_value,
    parse_button_value,
    parse_page_value,
)
from slackbot.cards.vote_forms import (
    OWN_WORDS_EXCLUDE,
    chosen_reason,
    own_words_input,
    reason_chooser,
    reason_of,
)

MOST = 10
"""Requests in one form."""
LEAST = 2
"""Requests of a kind for which a list offers the form."""
MAX_ROW = 1_000
"""Weight of a request's facts, and of its arguments."""
MAX_LINES = 30
MAX_TITLE = 400
MAX_NAMED = 10
MAX_CARRIED = 3_000
"""Slack's limit for `private_metadata`."""

PAGE_OF_TOGETHER = "together"
"""Page values with what to decide: `group`, `agent`, `key`, `checkpoint`, `tool`, `after`."""
HEADING = "Decide together"
TICK_BLOCK = "signoff:row_"
TICK = "signoff:tick"
VERDICT_BLOCK = "signoff:verdict"
VERDICT = "signoff:verdict_input"
NOTHING_TICKED = "Tick at least one request."
NO_VERDICT = "Choose what you decide."
ONLY_REJECTS = "This is a reason for rejecting; leave it empty to approve."


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A request of the same kind that the form does not have, with the reason, as a clause about it."""

    view: RequestView
    why: str


@dataclass(frozen=True, slots=True)
class TogetherForm:
    """What one form shows.

    `rows`: requests of one checkpoint and tool, each with the nonce of its place in a modal. `query`: the page value's
    query for the requests after these; None if there are none.
    """

    id: UUID
    rows: Sequence[RequestView]
    left_out: Sequence[LeftOut] = ()
    query: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class CarriedRow:
    """What a form's row claims: the request's place and revision, and the SHA-256 of the action that it showed."""

    value: ButtonValue
    digest: bytes


@dataclass(frozen=True, slots=True)
class SubmittedForm:
    """A submission: its form, the ticked rows, and what was decided. `errors` are by block id."""

    id: UUID
    rows: tuple[CarriedRow, ...]
    verdict: Verdict | None
    reason: str | None
    query: Mapping[str, str] | None
    errors: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RowOutcome:
    """What became of one ticked request. `problem`: why its vote does not count, as a sentence; None if it does."""

    view: RequestView | None
    status: str
    problem: str | None = None


def apart(view: RequestView, *, masked: bool = False) -> str | None:
    """Return why a request is decided on its own, as a clause about it; None if a form may show it with others.

    `masked`: something of it is hidden from everybody.
    """
    if (why := obstacle(view)) is not None:
        return why
    if view.paused_by is not None:
        return "its agent is paused" if view.paused_agent else "all agents are paused"
    if masked or isinstance(view.action, MaskedAction) or unreadable(view) or arguments.hidden_note(view):
        return "it hides a value"
    if view.editor is not None:
        return "a reviewer edited it"
    if view.previous_facts is not None:
        return "its facts have changed since an earlier approval"
    if view.rejected_before is not None:
        return "the same action was rejected before"
    return None if _in_full(view) else "it is too long for a row"


def together_modal(form: TogetherForm, reader: Person | None = None) -> Json:
    """Return the form. Nothing is chosen but the ticks: sending it decides what is ticked, and only that."""
    rule, count = form.rows[0].rule, len(form.rows)
    required = reason_required(form)
    effect = "Each is decided by itself, as on its card. The agents and requesters will see the reason."
    if any(view.own_words_exclude(reader) for view in form.rows):
        effect = f"{effect} {OWN_WORDS_EXCLUDE}"
    rows = [
        *blocks.with_ids([blocks.rich_text(blocks.section(blocks.text(effect)))], HEADING),
        *chain.from_iterable(_row(view, at, count) for at, view in enumerate(form.rows)),
        *_named("Not in this form; each has a card of its own:", form.left_out),
        _verdicts(),
        *reason_chooser(rule.reject_reasons, label="Reason for rejecting"),
        own_words_input(
            "In your own words" if rule.reject_reasons else "Reason or note",
            required=len(required) == len(ON_APPROVAL),
            hint=" ".join(VERDICTS[verdict].reason_missing for verdict in required) or None,
        ),
    ]
    return modal(
        HEADING, rows, close="Cancel", submit="Record", callback=CALLBACK_TOGETHER, carry=_carry(form)
    )


def reason_required(form: TogetherForm) -> list[Verdict]:
    """Return the verdicts that want a reason from at least one of the form's requests."""
    return [each for each in ON_APPROVAL if any(each in view.rule.reason_required for view in form.rows)]


def read_together(view: Mapping[str, Any]) -> SubmittedForm | None:
    """Read a `view_submission`'s `view`; None for a form that Signoff never made."""
    carried = _read_carried(view.get("private_metadata"))
    if carried is None:
        return None
    form_id, query, rows = carried
    values = (view.get("state") or {}).get("values") or {}
    ticked = tuple(row for at, row in enumerate(rows) if _is_ticked(values, at))
    chosen = (_element(values, VERDICT_BLOCK, VERDICT).get("selected_option") or {}).get("value")
    verdict = Verdict(chosen) if chosen in set(ON_APPROVAL) else None
    errors: dict[str, str] = {}
    if not ticked:
        errors[f"{TICK_BLOCK}0"] = NOTHING_TICKED
    if verdict is None:
        errors[VERDICT_BLOCK] = NO_VERDICT
    if chosen_reason(view) and verdict not in (Verdict.REJECT, None):
        errors[CHOICE_BLOCK] = ONLY_REJECTS
    return SubmittedForm(form_id, ticked, verdict, reason_of(view), query, errors)


def together_outcome(outcomes: Sequence[RowOutcome], query: Mapping[str, str] | None) -> Json:
    """Return what the form becomes: how many were decided, and by name whatever was not."""
    rows = [blocks.rich_text(blocks.section(blocks.text(summary(outcomes), bold=True)))]
    for each in outcomes:
        if each.problem is not None:
            rows += _problem(each)
    if query is not None:
        value = page_value(PAGE_OF_TOGETHER, **query)
        rows += blocks.actions(blocks.button("Next…", ACTION_DECIDE_TOGETHER, value, HEADING, "primary"))
    return modal(HEADING, blocks.with_ids(rows, HEADING), close="Close")


def summary(outcomes: Sequence[RowOutcome]) -> str:
    """`5 of 6 approved`, with what else was counted."""
    counted: dict[str, int] = {}
    for each in outcomes:
        if each.problem is None:
            counted[each.status] = counted.get(each.status, 0) + 1
    if not counted:
        return "None was decided."
    words = ", ".join(f"{number} {status}" for status, number in counted.items())
    done = sum(counted.values())
    if len(counted) == 1:
        words = f"{done} of {len(outcomes)} {next(iter(counted))}"
    return f"{words}." if done == len(outcomes) else f"{words}; the others stay as they are:"


def nothing_together(left_out: Sequence[LeftOut]) -> Json:
    """Return the modal that says why no two of these requests can be decided together."""
    said = "Nothing here can be decided together now." if left_out else "Nothing here waits for you any more."
    rows = [
        blocks.rich_text(blocks.section(blocks.text(said))),
        *_named("Each of these is decided on its own card:", left_out),
    ]
    return modal(HEADING, blocks.with_ids(rows, HEADING), close="Close")


def together_row(waiting: Sequence[RequestView], query: Mapping[str, str]) -> list[Json]:
    """Return the button above a list whose requests a form can decide together; empty for fewer than two of a kind.

    `waiting`: as people see them. `query`: what the list is of.
    """
    kinds = Counter((view.checkpoint_id, view.action.tool) for view in waiting if apart(view) is None)
    if max(kinds.values(), default=0) < LEAST:
        return []
    return blocks.actions(together_button(query, "what waits for you"))


def together_button(query: Mapping[str, str], about: str, style: Literal["primary"] | None = None) -> Json:
    """Return the button that opens the form for the requests of a query."""
    value = page_value(PAGE_OF_TOGETHER, **query)
    return blocks.button("Decide together…", ACTION_DECIDE_TOGETHER, value, about, style)


def _row(view: RequestView, at: int, count: int) -> list[Json]:
    """The tick, which has the title; below it the title again if the tick cuts it, and everything else."""
    shown = without_command_in_title(view)
    title, is_cut = inert.line_and_rest(subject(shown), blocks.OPTION_LIMIT)
    ticked = [blocks.option(title, "yes")]
    element = {
        "type": "checkboxes",
        "action_id": TICK,
        "options": ticked,
        "initial_options": ticked,
    }
    tick = blocks.input_block(f"{TICK_BLOCK}{at}", f"{at + 1} of {count}", element, optional=True)
    whole = [blocks.section(blocks.text(inert.line(subject(shown), MAX_TITLE), bold=True))] if is_cut else []
    small = blocks.section(
        blocks.text(f"{view.risk.value.capitalize()} risk · agent {inert.line(view.chain, 80)} · for "),
        blocks.requester(view.behalf),
        blocks.text(" · until "),
        blocks.moment(view.expires_at),
        blocks.text(_progress(view)),
    )
    body = blocks.rich_text(*whole, small, *(_in_full(view) or []))
    return [tick, *blocks.with_ids([body, blocks.divider()], f"{view.id}:{view.revision}")]


def _progress(view: RequestView) -> str:
    approvals, counted = view.approvals, status_words.counted(view)
    progress = status_words.progress(approvals, view.approvals_required, counted)
    return f" · {progress}" if progress else ""


def _in_full(view: RequestView) -> list[Json] | None:
    """Limits, facts and arguments, or None if a row has no room for all of them."""
    if inert.line_and_rest(subject(without_command_in_title(view)), MAX_TITLE)[1]:
        return None
    parts = limits.parts(view)
    if view.facts:
        known = tree.show_values(view.facts, MAX_ROW, MAX_LINES, view.money_in("facts"), view.called)
        if not known.complete:
            return None
        parts += [facts.heading(view), *known.parts]
    elif not view.is_question:
        parts.append(blocks.section(blocks.text(facts.absent(view), italic=True)))
    given = arguments.shown(view, MAX_ROW, MAX_LINES, title_shown=True, whole=True)
    return [*parts, *given.parts] if given.complete else None


def _verdicts() -> Json:
    options = [blocks.option(VERDICTS[verdict].button, verdict.value) for verdict in ON_APPROVAL]
    element = {"type": "radio_buttons", "action_id": VERDICT, "options": options}
    return blocks.input_block(VERDICT_BLOCK, "Decide what is ticked", element)


def _named(heading: str, left_out: Sequence[LeftOut]) -> list[Json]:
    if not left_out:
        return []
    items = [
        blocks.section(
            blocks.text(inert.line(subject(each.view), 150), bold=True), blocks.text(f": {each.why}")
        )
        for each in left_out[:MAX_NAMED]
    ]
    if (more := len(left_out) - MAX_NAMED) > 0:
        items.append(blocks.section(blocks.text(f"{more:,} more", italic=True)))
    parts = [blocks.section(blocks.text(heading, italic=True)), blocks.bullets(items)]
    return blocks.with_ids([blocks.rich_text(*parts)], HEADING)


def _problem(outcome: RowOutcome) -> list[Json]:
    view, said = outcome.view, inert.line(outcome.problem or "", 300)
    if view is None:
        return [blocks.rich_text(blocks.section(blocks.text(said)))]
    about = subject(view)
    line = blocks.section(blocks.text(f"{inert.line(about, 150)}: ", bold=True), blocks.text(said))
    return [
        blocks.rich_text(line),
        *blocks.actions(blocks.button("Open", ACTION_OPEN, str(view.id), about)),
    ]


def claim_of(view: RequestView) -> str:
    """Return what a row of the form claims, as text; `read_claim` reads it back."""
    return f"{button_value(view)} {urlsafe_b64encode(view.digest).decode()}"


def read_claim(text: str) -> CarriedRow:
    """Raises ValueError for a text that no form has."""
    value, _, digest = text.partition(" ")
    found = parse_button_value(value)
    if found is None:
        raise ValueError(text)
    return CarriedRow(found, urlsafe_b64decode(digest.encode("ascii")))


def _carry(form: TogetherForm) -> str:
    """Without the query if it does not fit: then there is no *Next*."""
    query = page_value(PAGE_OF_TOGETHER, **form.query) if form.query is not None else ""
    rows = [claim_of(view) for view in form.rows]
    carried = "\n".join([str(form.id), query, *rows])
    return carried if len(carried) <= MAX_CARRIED else "\n".join([str(form.id), "", *rows])


def _read_carried(text: object) -> tuple[UUID, Mapping[str, str] | None, tuple[CarriedRow, ...]] | None:
    lines = text.split("\n") if isinstance(text, str) else []
    if not 3 <= len(lines) <= 2 + MOST:
        return None
    page = parse_page_value(lines[1])
    try:
        rows = tuple(map(read_claim, lines[2:]))
        form_id = UUID(lines[0])
    except ValueError:
        return None
    different = len({row.value.request_id for row in rows}) == len(rows)
    return (form_id, page[1] if page else None, rows) if different else None


def _is_ticked(values: Mapping[str, Any], at: int) -> bool:
    chosen = _element(values, f"{TICK_BLOCK}{at}", TICK).get("selected_options") or []
    return isinstance(chosen, list) and [each.get("value") for each in chosen] == ["yes"]


def _element(values: Mapping[str, Any], block_id: str, action_id: str) -> Mapping[str, Any]:
    found = (values.get(block_id) or {}).get(action_id)
    return found if isinstance(found, Mapping) else {}
