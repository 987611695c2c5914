"""A request's buttons: the same on card, Details and App Home."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent.domain.request import RequestStatus, Verdict
from agent.domain.request_view import RequestView
from agent.domain.short_ids import short_id
from agent.domain.verdicts import VERDICTS
from signoff.values import Risk
from slackbot.cards import blocks, inert, scalars
from slackbot.cards.question import answer_row
from slackbot.cards.values import (
    ACTION_ALLOW_SIMILAR,
    ACTION_APPROVE_COMMENT,
    ACTION_ASK_AGAIN,
    ACTION_DETAILS,
    ACTION_DONE,
    ACTION_EDIT,
    ACTION_LINK,
    ACTION_MORE,
    ACTION_PAGE,
    ACTION_PAGE_BACK,
    ACTION_RETRY,
    ACTION_REVOKE,
    ACTION_VOTE,
    Json,
    Names,
    Pages,
    button_value,
)

_ADDRESS = re.compile(r"https?://(?P<host>[A-Za-z0-9.:-]{1,255})(?:[/?#][!#-;=?-\[\]_a-z~]*)?\Z", re.ASCII)
MAX_ADDRESS = 3000


@dataclass(frozen=True, slots=True)
class Choice:
    """Beside the votes."""

    button: Json
    effect: str


def row(view: RequestView, names: Names, *, approvable: bool) -> list[Json]:
    """Buttons need `view.place_nonce`. `approvable`: everything that would run can be read."""
    if not view.place_nonce:
        return blocks.actions(*_link(view))
    value, about = button_value(view), subject(view)
    details = blocks.button("Details", ACTION_DETAILS, value, about)
    more = [blocks.button("More…", ACTION_MORE, value, about)] if choices(view, approvable=approvable) else []
    return blocks.actions(*_deciding(view, names, approvable), details, *more, *_link(view))


def whole_row(view: RequestView, names: Names, *, approvable: bool) -> list[Json]:
    """In Details, where there is room for every choice."""
    if not view.place_nonce:
        return blocks.actions(*_link(view))
    others = [each.button for each in choices(view, approvable=approvable)]
    return blocks.actions(*_deciding(view, names, approvable), *others, *_link(view))


def choices(view: RequestView, *, approvable: bool) -> list[Choice]:
    """What *More…* offers while the request waits."""
    if view.status is not RequestStatus.WAITING or view.wants_answer:
        return []
    value, about = button_value(view), subject(view)
    offered = [
        (approvable and not _needs_note(view), "Approve with note", ACTION_APPROVE_COMMENT, _NOTE),
        (view.rule.allow_edit, "Edit", ACTION_EDIT, _EDIT),
        (
            approvable and _may_allow(view),
            "Approve and allow similar…",
            ACTION_ALLOW_SIMILAR,
            _SIMILAR,
        ),
    ]
    return [
        Choice(blocks.button(label, action_id, value, about), effect)
        for possible, label, action_id, effect in offered
        if possible
    ]


_NOTE = "Approve, and write a note that the agent and the requester read."
_EDIT = "Change its arguments. The new revision is approved or rejected again; earlier votes do not count."
_SIMILAR = "Approve, and let similar calls run without asking anybody, within bounds that you set."


def plain_row(view: RequestView) -> list[Json]:
    """Return the buttons of a plain card, never with Approve; empty if the card has no nonce of its place."""
    if not view.place_nonce:
        return []
    value, waits = button_value(view), view.status is RequestStatus.WAITING
    made = _votes(view, approvable=False) if waits else _ask_again(view) or _settle(view)
    return blocks.actions(*made, blocks.button("Details", ACTION_DETAILS, value, subject(view)))


def turning(pages: Pages, about: str) -> list[Json]:
    """Return the row of Back and Next buttons, those that lead to a page; empty if there is only one."""
    back = [blocks.button("‹ Back", ACTION_PAGE_BACK, pages.back, about)] if pages.back else []
    forward = [blocks.button("Next ›", ACTION_PAGE, pages.forward, about)] if pages.forward else []
    return blocks.actions(*back, *forward)


def subject(view: RequestView) -> str:
    """The first of its description, its tool's name and its id that says something; not inert yet."""
    said = (each for each in (view.description, view.action.tool) if inert.line(each, 10))
    return next(said, f"request {short_id(view.id)}")


def _deciding(view: RequestView, names: Names, approvable: bool) -> list[Json]:
    return _decide(view, names, approvable) or _ask_again(view) or _settle(view) or _revoke(view)


def _decide(view: RequestView, names: Names, approvable: bool) -> list[Json]:
    if view.status is not RequestStatus.WAITING:
        return []
    if view.wants_answer:
        return [*answer_row(view, subject(view)), *_votes(view, approvable=False)]
    # A form that asks for a note is already a second step.
    confirm = None if _needs_note(view) else _confirmation(view, names)
    return _votes(view, confirm, approvable=approvable)


def _needs_note(view: RequestView) -> bool:
    """An approval needs one, so Approve opens its form."""
    return Verdict.APPROVE in view.rule.reason_required


def _votes(view: RequestView, confirm: Json | None = None, *, approvable: bool) -> list[Json]:
    """``confirm`` is for approvals."""
    value, about, confirms = button_value(view), subject(view), {Verdict.APPROVE: confirm}
    action_ids = ACTION_VOTE | ({Verdict.APPROVE: ACTION_APPROVE_COMMENT} if _needs_note(view) else {})
    made = []
    for verdict in view.verdicts:
        if verdict in ACTION_VOTE and (approvable or verdict is not Verdict.APPROVE):
            words, sure = VERDICTS[verdict], confirms.get(verdict)
            made.append(blocks.button(words.button, action_ids[verdict], value, about, words.style, sure))
    return made


def _may_allow(view: RequestView) -> bool:
    """Excludes edited calls and other grants."""
    return view.allow_grants and view.grant is None and view.revision == 1 and view.editor is None


def _revoke(view: RequestView) -> list[Json]:
    live = view.grant is not None and view.grant.ended_at is None
    if not live or view.status is not RequestStatus.APPROVED:
        return []
    sure = blocks.confirm(
        "Revoke this grant?",
        "From now on, people are asked about every such call again.",
        "Revoke",
        style="danger",
    )
    return [blocks.button("Revoke", ACTION_REVOKE, button_value(view), subject(view), "danger", sure)]


def _ask_again(view: RequestView) -> list[Json]:
    if view.status is not RequestStatus.EXPIRED or view.requester is None or view.run_id is None:
        return []
    if view.asked_again is not None or view.erased_at is not None:
        return []
    return [blocks.button("Ask again", ACTION_ASK_AGAIN, button_value(view), subject(view))]


def _settle(view: RequestView) -> list[Json]:
    execution = view.execution
    if execution is None or not execution.awaits_settlement:
        return []
    return settling(button_value(view, execution.id), subject(view), ACTION_RETRY, ACTION_DONE)


def settling(value: str, about: str, retry_action: str, done_action: str) -> list[Json]:
    """Return Retry and Mark as done, for a call in doubt; Retry first warns that it may happen twice."""
    retry = blocks.confirm(
        "Run it again?",
        "The first attempt may have had its effect, or may still be running: "
        "running it again can make it happen twice.",
        "Run it again",
        style="danger",
    )
    return [
        blocks.button("Retry", retry_action, value, about, "danger", retry),
        blocks.button("Mark as done", done_action, value, about),
    ]


def _confirmation(view: RequestView, names: Names) -> Json | None:
    if view.risk < Risk.HIGH:
        return None
    money = scalars.amounts(view)
    asked_for = view.behalf.requester
    named = inert.line(names.of(asked_for.user_id), 40) if asked_for else "nobody in Slack"
    question = (
        f"{inert.line(subject(view), 130)}{f' ({inert.shortened(money, 60)})' if money else ''}, "
        f"for {'anyone' if view.behalf.anyone else named}. {_ONCE_GRANTED if view.grant else 'Once approved, it runs.'}"
    )
    return blocks.confirm(
        f"Approve this {view.risk.value}-risk action?", question, "Approve", style="primary"
    )


_ONCE_GRANTED = "Once approved, such calls run without asking anybody."


def _link(view: RequestView) -> list[Json]:
    """The checkpoint's link, labelled with its host; a misleading address is left out."""
    found = _ADDRESS.match(view.link) if view.link and len(view.link) <= MAX_ADDRESS else None
    if found is None:
        return []
    host, room = found["host"], blocks.BUTTON_LIMIT - len("Open …")
    end = host if len(host) <= room else f"…{host[-room:]}"  # a host's end says whose it is
    shown = blocks.button(f"Open {end}", ACTION_LINK, None, subject(view))
    return [shown | {"url": view.link}]
