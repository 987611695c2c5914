"""Thread lines: each reports one stored fact (`delivery.body`); external text is quoted below Signoff's sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from agent.domain.request import ExecutionStatus, RequestStatus
from agent.domain.run import CallOutcome, Hold, RunStatus, RunView
from agent.domain.short_ids import short_id
from agent.domain.together import with_others
from agent.domain.verdicts import ENDED, OUTCOMES, REFUSALS, VERDICTS, OutcomeWords
from signoff.formats import Money, enumerated
from slackbot.cards import blocks, buttons, durations, inert, question, status, status_words, tree
from slackbot.cards.answer import answer_line
from slackbot.cards.values import (
    ACTION_DONE_CALL,
    ACTION_OPEN,
    ACTION_RESUME_RUN,
    ACTION_RETRY_CALL,
    Card,
    Json,
    metadata,
    parse_id,
)

MAX_QUOTED = 1500
MAX_QUOTED_LINES = 20
MAX_TASK = 1500
MAX_EDITS = 3000
MAX_CHANGES = 7000
MAX_CHANGED_LINES = 45
"""Of a policy: one message, with its lines in short form beside others'."""
MAX_ASKERS = 160
MAX_PEOPLE = 20
MAX_TITLE = 80

# line -> (sentence, label of the quoted `text`)
REQUEST_LINES = {
    **{each.status.word: (each.heading, f"{each.own_words}:") for each in ENDED},
    "voted": ("One vote", "Note:"),
    "lapsed": ("⌛ Approval lapsed: nobody claimed it in time, so it will not be run", "Note:"),
    "handed_over": (
        "⌛ Handed over: the program that asked read the approval but has not reported an outcome",
        "Note:",
    ),
    "succeeded": ("✅ Done", "The tool's result:"),
    "failed": ("❌ Failed", "The tool's error:"),
    "nothing_done": (status.NOTHING_WAS_DONE, "Why:"),
    "in_doubt": (
        "⚠ In doubt: nobody knows whether it happened. Please check, then settle it on the card",
        "Known:",
    ),
    "retry_wanted": ("↩ One vote for Retry", "Note:"),
    "settled": ("↩ Settled", "Note:"),
    "stopped": ("🚫 Approved, but stopped before it began; nothing was run", "Note:"),
    "not_repeated": ("🚫 Stopped: it is not attempted again", "Note:"),
    "voided": (
        "↩ Approval void: its facts, its tool or the policy changed before it began; people are asked again",
        "The difference:",
    ),
    "outdated": (
        "↩ Approval void: it was too old when the call could begin, so nothing was run; people are asked again",
        "Note:",
    ),
    "edited": ("↩ Edited: earlier votes do not count, the new revision waits for review", "Note:"),
    "reminder": ("⏳ Reminder: still waiting for review", "About:"),
    "escalated": ("⚠ Escalated: nobody decided by the first deadline; more people may decide now", "About:"),
    "grant_used": ("▶ Used without asking", "For:"),
    "grant_ended": ("🚫 Ended: people are asked about such calls again", "Why:"),
    "late_result": ("⌛ A late result arrived; it was recorded and changed nothing", "The tool said:"),
}
_OUTCOME_LINES = {each.status.word: each for each in ENDED}
_CALL_DOUBT = (
    "⚠ A call is in doubt: nobody knows whether it happened. Please check, then settle it: the person who started "
    "this run can, or a workspace administrator"
)
_DOUBT_ON_CARD = (
    "⚠ A call is in doubt: nobody knows whether it happened. Please check, then settle it on its card"
)
_FAILED = (
    "❌ The run failed; calls that ran are not undone. The person who started it, or a workspace administrator, "
    "can resume it"
)
_CLOSED = (
    "Slack no longer lets this card be changed: it may show buttons that do not count any more. Details shows the "
    "request as it is."
)
_CARD_GIVEN_UP = (
    "⚠ A card could not be posted or changed; its request is unaffected. An operator fixes the cause, then runs "
    "`signoff deliveries retry --all`"
)
_GIVEN_UP = (
    "⚠ Slack did not accept a message, so it was given up (`signoff deliveries` lists such messages). Fix the cause, "
    "then run `signoff deliveries retry --all`"
)
RUN_LINES = {
    "answer": ("The agent's answer", ""),
    "pending": ("⏳ Waiting for review", "About:"),
    "voted": ("One vote", "About:"),
    "decided": ("Decided", "About:"),
    "failed": (_FAILED, "Error:"),
    "resumed": ("▶ Resumed where it stopped", "Note:"),
    "denied": ("❌ The run was stopped", "Note:"),
    "cancelled": ("🚫 The run was cancelled", "Note:"),
    "retrying": ("↩ The model did not answer; trying again", "It said:"),
    "in_doubt": (_CALL_DOUBT, "Known:"),
    "settled": ("↩ Settled", "Note:"),
    "unreachable": ("⚠ A card could not be posted or changed; the request stays open", "Why:"),
    "plain_card": (
        "⚠ Slack did not accept a request's full card; a plain one without Approve is shown",
        "Error:",
    ),
    "given_up": (_GIVEN_UP, "Why:"),
    "uncounted_reviewers": (
        "⚠ Reviewers not counted: the group is large, and too few of those looked up can approve",
        "About:",
    ),
    "missing_reviewers": ("⚠ Too few reviewers can still approve a request; it stays open", "About:"),
    "policy": ("↩ Another policy is in force", "What changed:"),
    "paused": ("⏸ Paused: nothing of this agent begins", "Reason:"),
    "paused_all": ("⏸ All agents paused: nothing begins", "Reason:"),
    "unpaused": ("▶ The pause of this agent has ended", ""),
    "unpaused_all": ("▶ The pause of all agents has ended", ""),
    "key_created": ("▶ An API key was created", "It may:"),
    "key_rotated": ("↩ An API key has a new secret", "The earlier secret is:"),
    "key_revoked": ("🚫 An API key was revoked", "It could:"),
    "trouble": (
        "⚠ Requests stay open but cannot all be shown (`signoff doctor` finds most causes)",
        "Why:",
    ),
}
COUNTED = {"pending": "requests", "decided": "requests", "grant_used": "calls"}
_NAMED = {
    "tool": "tool",
    "request": "request",
    "agent": "agent",
    "named": "key",
    "policy": "policy",
    "restores": "which brings back",
}
_DEADLINES = {"reminder", "escalated"}  # their moment is in the future
_SETTLED = {
    "retry": "↩ Settled: will run again",
    "done": "✅ Settled: marked as done",
    "succeeded": "✅ No longer in doubt: its worker reported that it is done",
}
_RUN_SIGNS: dict[RunStatus | ExecutionStatus | Hold, str] = {
    RunStatus.WORKING: "▶",
    RunStatus.PENDING_APPROVAL: "⏳",
    RunStatus.COMPLETED: "✅",
    RunStatus.DENIED: "❌",
    RunStatus.FAILED: "❌",
    RunStatus.CANCELLED: "🚫",
    ExecutionStatus.IN_DOUBT: "⚠",
    Hold.PAUSED: "⏸",
    Hold.SLEEPING: "💤",
}
_ENDING_SIGNS = {
    **{CallOutcome(cause): words.sign for cause, words in REFUSALS.items()},
    CallOutcome.LAPSED: "⌛",
    CallOutcome.NOT_RUN: "🚫",
    CallOutcome.FAILED: "❌",
    CallOutcome.DENIED: "❌",
    CallOutcome.NOTHING_DONE: "❌",
}


def thread_line(body: Mapping[str, Any], *, delivery_id: object | None = None) -> Card:
    """An unknown kind is shown by name."""
    kind = str(body.get("line"))
    if kind == "closed":
        return _closed(body, delivery_id)
    outcome = _OUTCOME_LINES.get(kind)
    words, label = REQUEST_LINES.get(kind) or _unknown(kind)
    words, body = _settled(_voted(words, body), body)
    return _line(kind, words, label, body, delivery_id, outcome)


def _closed(body: Mapping[str, Any], delivery_id: object | None) -> Card:
    """The outcome, in the thread of a card that cannot show it."""
    outcome = OUTCOMES.get(str(body.get("outcome")))
    words = outcome.heading if outcome else "Decided"
    drawn = _line("closed", words, "", body, delivery_id, outcome)
    note = blocks.rich_text(blocks.section(blocks.text(_CLOSED)))
    about = parse_id(body.get("open"))
    rows = [*drawn.blocks, note]
    if about is not None:
        button = blocks.button("Details", ACTION_OPEN, str(about), f"request {short_id(about)}")
        rows += blocks.actions(button)
    rows = blocks.with_ids(rows, f"closed:{about}")
    return replace(drawn, text=f"{drawn.text} {_CLOSED}", blocks=rows)


def run_line(body: Mapping[str, Any], *, delivery_id: object | None = None) -> Card:
    """Return a run's thread line; a failed run gets Resume, a call in doubt the buttons that settle it."""
    kind = str(body.get("line"))
    words, label = RUN_LINES.get(kind) or _unknown(kind)
    if kind == "answer":
        return answer_line(words, body, delivery_id)
    words, body = _settled(_voted(words, body), body)
    words = _DOUBT_ON_CARD if kind == "in_doubt" and body.get("request") else words
    words = _CARD_GIVEN_UP if kind == "unreachable" and body.get("given_up") else words
    outcome = OUTCOMES.get(str(body.get("outcome"))) if kind == "decided" else None
    words = outcome.heading if outcome else words
    drawn = _line(kind, words, label, body, delivery_id, outcome)
    if kind == "failed" and (run := parse_id(body.get("run"))) is not None:
        resume = blocks.actions(blocks.button("Resume", ACTION_RESUME_RUN, str(run), f"run {short_id(run)}"))
        return replace(drawn, blocks=blocks.with_ids([*drawn.blocks, *resume], f"failed:{run}"))
    execution = parse_id(body.get("execution")) if kind == "in_doubt" else None
    if execution is None:
        return drawn
    about = f"{body.get('tool') or 'call'}, {short_id(execution)}"
    settle = blocks.actions(*buttons.settling(str(execution), about, ACTION_RETRY_CALL, ACTION_DONE_CALL))
    return replace(drawn, blocks=blocks.with_ids([*drawn.blocks, *settle], f"in_doubt:{execution}"))


def run_root(run: RunView, *, card: str | None = None, delivery_id: object | None = None) -> Card:
    """``card``: the address of the first waiting card."""
    agent = inert.line(run.chain, 160)
    first = blocks.section(
        blocks.text(run_words(run), bold=True),
        *until(run),
        *((blocks.text(" · "), blocks.link(card, "open the card")) if card else ()),
        blocks.text(f" · agent {agent}, version {inert.line(run.agent_version, 40)} · asked by "),
        blocks.person(run.requester, "nobody in Slack"),
    )
    paused = status.paused(run, "nothing") if run.held_up else []
    parts = [first, *paused, *_quoted("Task:", run.task, MAX_TASK, MAX_QUOTED_LINES)]
    if run.progress and run.status in {RunStatus.WORKING, RunStatus.PENDING_APPROVAL}:
        parts += _quoted("Progress:", run.progress, MAX_QUOTED, 8)
    if run.cause and run.status in {RunStatus.DENIED, RunStatus.FAILED, RunStatus.CANCELLED}:
        parts += _quoted("Cause:", run.cause, MAX_QUOTED, 8)
    far = f" · step {run.turn:,}" if run.turn else ""
    rows = [blocks.rich_text(*parts), blocks.context(f"run {short_id(run.id)}{far}")]
    text = f"{inert.escaped(run_words(run))}: {inert.mrkdwn(f'{run.chain}: {run.task}', 300)}"
    return Card(
        text,
        blocks.with_ids(
            rows,
            f"{run.id}:{run_words(run)}:{run.sleeping_until}:{run.waiting}:{run.turn}:{run.progress}:{card}",
        ),
        metadata(delivery_id, run=run.id),
    )


def run_words(run: RunView) -> str:
    """The status as a sign and few words; names child agents if only they have asked."""
    if run.status is RunStatus.COMPLETED and run.asked:
        return (
            f"⏳ Answered; {run.asked:,} {'request waits' if run.asked == 1 else 'requests wait'} for review"
        )
    if run.shown is RunStatus.PENDING_APPROVAL and not run.waiting:
        verb = "waits" if len(run.askers_below) == 1 else "wait"
        return (
            f"⏳ Waiting for {inert.line(', '.join(run.askers_below), MAX_ASKERS)}, which {verb} for review"
        )
    where = ", see its card or thread" if run.standing is ExecutionStatus.IN_DOUBT else ""
    standing = run.standing
    sign = _ENDING_SIGNS[standing] if isinstance(standing, CallOutcome) else _RUN_SIGNS[standing]
    return f"{sign} {status_words.of_run(standing)}{where}"


def until(run: RunView) -> list[Json]:
    """Return until when a sleeping run sleeps, as pieces of text; empty for any other run."""
    if run.sleeping_until is None or run.standing is not Hold.SLEEPING:
        return []
    return [blocks.text(" until "), blocks.moment(run.sleeping_until)]


def _voted(words: str, body: Mapping[str, Any]) -> str:
    vote = VERDICTS.get(str(body.get("verdict"))) if body.get("line") == "voted" else None
    return f"{vote.outcome.sign} One {vote.noun}" if vote else words


def _settled(words: str, body: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """A settlement's `text` is its verdict, in Signoff's words; the person's words are its reason."""
    verdict = _SETTLED.get(str(body.get("text"))) if body.get("line") == "settled" else None
    return (verdict, {**body, "text": None}) if verdict else (words, body)


def _unknown(kind: str) -> tuple[str, str]:
    return f"Event {re.sub('[^A-Za-z]+', ' ', kind)[:40].strip()}".strip(), "It says:"


def _line(
    kind: str,
    words: str,
    label: str,
    body: Mapping[str, Any],
    delivery_id: object | None,
    outcome: OutcomeWords | None,
) -> Card:
    then = outcome.consequence if outcome else ""
    texts = [inert.line(each, MAX_TITLE) or "…" for each in body.get("texts") or ()]
    counted = f" · {len(texts):,} {COUNTED[kind]}" if texts else ""
    about = f": {''.join(enumerated(texts, blocks.MAX_NAMED))}" if texts else ""
    first = blocks.section(
        blocks.text(words, bold=True), blocks.text(counted), *_details(body), blocks.text(f"{about}{then}")
    )
    approved = body.get("verdict") == "approve" or "approved" in (kind, body.get("outcome"))
    status = RequestStatus.APPROVED if approved else RequestStatus.REJECTED
    own = (f"{OUTCOMES[status].own_words}:", body.get("reason"))
    answer = body.get("answer")
    if answer is not None:
        own = ("Answer:", question.answer_in_words(answer))
    said: list[tuple[str, Any]] = [own, (label, body.get("text")), ("Cause:", body.get("cause"))]
    limits = (MAX_CHANGES, MAX_CHANGED_LINES) if kind == "policy" else (MAX_QUOTED, MAX_QUOTED_LINES)
    quoted = [part for name, words in said for part in _quoted(name, words, *limits)]
    people = _people(body)
    asked = [blocks.section(blocks.text("For "), *_spaced(map(blocks.mention, people)))] if people else []
    rows = [blocks.rich_text(first, *asked, *_edits(body), *quoted)]
    spoken = own[1] if answer is not None else body.get("reason")
    reason = f": {inert.mrkdwn(str(spoken), 200)}" if spoken else ""
    mentions = "".join(f" {blocks.mention_mrkdwn(each)}" for each in people)
    return Card(
        f"{words}{counted}{reason or then}{mentions}", blocks.with_ids(rows, kind), metadata(delivery_id)
    )


def _people(body: Mapping[str, Any]) -> list[str]:
    """Invalid ids are dropped."""
    return [each for each in _ids(body.get("people")) if blocks.mention_mrkdwn(each)][:MAX_PEOPLE]


def _ids(given: Any) -> list[str]:
    listed = given if isinstance(given, list | tuple) else []
    return [each for each in listed if isinstance(each, str) and each]


def _spaced(pieces: Iterable[Json]) -> Iterator[Json]:
    for number, piece in enumerate(pieces):
        if number:
            yield blocks.text(" ")
        yield piece


def _edits(body: Mapping[str, Any]) -> list[Json]:
    given = body.get("changes")
    known = [each for each in given if isinstance(each, Mapping)] if isinstance(given, list | tuple) else []
    changed = ((str(each.get("path")), each.get("before"), each.get("after")) for each in known)
    more = _number(body.get("more"))
    rest = [blocks.section(blocks.text(f"… and {more:,.0f} more", italic=True))] if more else []
    declared = body.get("money")
    paths = [str(each) for each in declared] if isinstance(declared, list | tuple) else []
    return [*tree.edits(changed, MAX_EDITS, Money.declared(paths).below("args")).parts, *rest]


def _details(body: Mapping[str, Any]) -> Iterator[Json]:
    if by := _ids(body.get("approved_by")) or _ids([body.get("user")]):
        yield blocks.text(" by ")
        yield from blocks.people(by, MAX_PEOPLE)
    elif body.get("by"):
        yield blocks.text(f" by {inert.line(str(body['by']), MAX_TITLE)}")
    if together := with_others(int(_number(body.get("together")) or 0)):
        yield blocks.text(f" {together}")
    if at := _moment(body.get("at")):
        yield blocks.text(" until " if body.get("line") in _DEADLINES else ", ")
        yield blocks.moment(at)
    if (taken := _number(body.get("seconds"))) is not None:
        yield blocks.text(f" in {durations.seconds(taken)}")
    if needed := _number(body.get("needed")):
        yield blocks.text(f" · {needed:,.0f} more needed")
    if isinstance(body.get("channel"), str):
        yield blocks.text(" in ")
        yield blocks.channel(body["channel"])
    for name, label in _NAMED.items():
        if body.get(name):
            yield blocks.text(f" · {label} ")
            yield blocks.text(inert.line(str(body[name]), 80), code=True)


def _quoted(label: str, content: Any, limit: int, max_lines: int) -> list[Json]:
    shown = inert.paragraph(str(content), limit, max_lines) if content else ""
    if not shown:
        return []
    head = [blocks.section(blocks.text(label, italic=True))] if label else []
    return [*head, blocks.quote(*blocks.texts(shown))]


def _number(value: Any) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12
    return float(value) if usable else None


def _moment(value: Any) -> datetime | None:
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return at if at is not None and at.tzinfo is not None else None
