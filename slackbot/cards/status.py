"""A request's status, always in the first lines below the title."""

from __future__ import annotations

from collections.abc import Iterator

from agent.domain.audit import person_of
from agent.domain.request import ExecutionStatus, RequestStatus
from agent.domain.request_view import ExecutionView, RequestView, VoteView
from agent.domain.run import RunView
from agent.domain.short_ids import short_id
from agent.domain.verdicts import OUTCOMES, VERDICTS
from slackbot.cards import blocks, durations, inert, question, status_words, tree
from slackbot.cards.values import Json

MAX_VOTES = 5
MAX_REASON = 500
MAX_ERROR = 500
MAX_EDITS = 1000
ALL = 100
NOTHING_WAS_DONE = "🚫 Nothing was done"


def parts(view: RequestView, named: int = blocks.MAX_NAMED) -> list[Json]:
    """``named``: how many of those who approved."""
    return [
        *_standing(view, named),
        *_rejected_before(view),
        *_elsewhere(view),
        *_grant(view),
        *_paused(view),
        *_escalated(view),
        *_edit_summary(view),
    ]


def _rejected_before(view: RequestView) -> Iterator[Json]:
    """Shown while people have to decide."""
    earlier = view.rejected_before
    if earlier is None or not view.needs_people:
        return
    by = [blocks.text(" by "), blocks.person(earlier.person)] if earlier.person else []
    where = (
        blocks.link(earlier.link, "see its card")
        if earlier.link
        else blocks.text(f"request {short_id(earlier.request_id)}")
    )
    first = " (before it was edited)" if view.revision > 1 else ""
    title = blocks.text("⚠ The same action was recently rejected", bold=True)
    about = [blocks.text(f"{first}, "), blocks.moment(earlier.at), blocks.text(": ")]
    yield blocks.section(title, *by, *about, where)
    yield from _quoted("Reason:", earlier.reason)


def _elsewhere(view: RequestView) -> list[Json]:
    if view.executor is None or view.status not in (RequestStatus.WAITING, RequestStatus.APPROVED):
        return []
    if view.executor == "*":
        return [blocks.section(blocks.text("⇢ Executed by another program"))]
    name = blocks.text(inert.line(view.executor, 80), bold=True)
    return [blocks.section(blocks.text("⇢ Executed by the program "), name)]


def _grant(view: RequestView) -> list[Json]:
    grant = view.grant
    if grant is None or view.status is not RequestStatus.APPROVED:
        return []
    used = status_words.grant_uses(grant)
    if grant.ended_at is None:
        until = [blocks.text(". It ends "), blocks.moment(grant.until)]
        return [blocks.section(blocks.text("▶ Used", bold=True), blocks.text(f" {used}"), *until)]
    by = [blocks.text(" by "), _actor(grant.ended_by)] if grant.ended_by else []
    why = f": {grant.ended_because}. It was used {used}"
    return [blocks.section(blocks.text("🚫 Grant ended", bold=True), *by, blocks.text(why))]


def _edit_summary(view: RequestView) -> list[Json]:
    if view.editor is None and not view.changes:
        return []
    title = blocks.section(
        blocks.text("↩ Edited", bold=True),
        blocks.text(" by "),
        blocks.person(view.editor),
        blocks.text(f": this is revision {view.revision}; votes on earlier ones do not count"),
    )
    changed = tree.edits(
        ((each.path, each.before, each.after) for each in view.changes), MAX_EDITS, view.money_in("args")
    )
    return [title, *changed.parts]


def _paused(view: RequestView) -> list[Json]:
    """Shown while decided calls do not begin."""
    return paused(view, "no approved call") if view.held_up else []


def paused(view: RequestView | RunView, what: str) -> list[Json]:
    """``what`` begins no more until the agent, or the one above it, is resumed."""
    by = _actor(view.paused_by or "")
    why = f": {what} begins until it is resumed"
    which = f" {inert.line(view.paused_agent, 80)}" if view.paused_agent in view.above else ""
    title = blocks.text(f"⏸ Agent{which} paused", bold=True)
    return [blocks.section(title, blocks.text(" by "), by, blocks.text(why))]


def _actor(recorded: str) -> Json:
    person = person_of(recorded)
    return blocks.mention(person.user_id) if person else blocks.text(inert.line(recorded, 80))


def _escalated(view: RequestView) -> list[Json]:
    if not view.escalated or view.status is not RequestStatus.WAITING:
        return []
    why = ": nobody decided by the first deadline, so more people may decide now"
    return [blocks.section(blocks.text("⚠ Escalated", bold=True), blocks.text(why))]


def _standing(view: RequestView, named: int) -> list[Json]:
    match view.status:
        case RequestStatus.WAITING:
            return list(_waiting(view))
        case RequestStatus.APPROVED:
            return [*_approved(view, named), *_votes(view)]
        case RequestStatus.EXPIRED:
            return [_ended(view), *_asked_again(view)]
        case RequestStatus.ANSWERED:
            return [_ended(view), *question.answered(view), *_votes(view)]
        case _:
            return [_ended(view), *_reason(view)]


def _waiting(view: RequestView) -> Iterator[Json]:
    pieces = [blocks.text(OUTCOMES[view.status].heading, bold=True)]
    given = view.approvals
    if counted := status_words.progress(given, view.approvals_required, status_words.counted(view)):
        needed = max(0, view.approvals_required - given)
        pieces.append(blocks.text(f" · {counted}, {needed} more needed"))
    asked = [blocks.mention(each) for each in view.rule.notify if blocks.mention_mrkdwn(each)][:10]
    for each in asked:
        pieces += [blocks.text(" · "), each]
    yield blocks.section(*pieces)
    yield from question.wanted(view)
    yield from _votes(view)


def _approved(view: RequestView, named: int) -> Iterator[Json]:
    by = _by(view, named)
    if view.voided:
        title = blocks.text("↩ Approval void", bold=True)
        cause = (
            "it was too old when the call could begin"
            if view.outdated
            else "its facts, its tool or the policy changed before it began"
        )
        why = f": {cause}, so nothing was run, and people were asked again. It was approved"
        yield blocks.section(title, blocks.text(why), *by)
        return
    yield blocks.section(blocks.text(OUTCOMES[view.status].heading, bold=True), *by)
    if view.execution is not None:
        yield from _execution(view.execution)
        yield from _retry_votes(view.execution, view.approvals_required)
    elif view.stopped and view.lapsed_at is None:
        yield blocks.section(blocks.text("It was stopped before it began, so nothing was run."))
    elif view.lapsed_at is None and view.lapse_at is None and view.grant is None:
        yield blocks.section(blocks.text("Not started yet."))
    yield from _outside(view)


def _outside(view: RequestView) -> Iterator[Json]:
    program = "that program" if view.run_id else "the program that asked"
    if view.lapse_at is not None:
        until = blocks.moment(view.lapse_at)
        yield blocks.section(blocks.text(f"Not started yet: {program} may begin until "), until)
    if view.lapsed_at is not None and view.handed_over_at is not None:
        title = blocks.text("⌛ Handed over", bold=True)
        why = ": the program that asked read the approval, and has not reported an outcome. "
        yield blocks.section(title, blocks.text(why), blocks.moment(view.handed_over_at))
    elif view.lapsed_at is not None:
        title = blocks.text("⌛ Lapsed", bold=True)
        why = f": {program} did not begin in time. It will not be run. "
        yield blocks.section(title, blocks.text(why), blocks.moment(view.lapsed_at))


def _execution(execution: ExecutionView) -> Iterator[Json]:
    attempt = f" (attempt {execution.attempt})" if execution.attempt > 1 else ""
    match execution.status:
        case ExecutionStatus.CLAIMED:
            started = blocks.moment(execution.started_at)
            yield blocks.section(
                blocks.text("▶ Running", bold=True), blocks.text(f"{attempt} since "), started
            )
        case ExecutionStatus.SUCCEEDED:
            late = ": it was in doubt until its worker reported" if execution.reported_late else ""
            yield blocks.section(
                blocks.text("✅ Done", bold=True),
                blocks.text(f" in {_duration(execution.seconds)}{attempt}{late}"),
            )
            if execution.not_stored:
                yield from _quoted("Its result cannot be used:", execution.result)
        case ExecutionStatus.FAILED if execution.retry_at is not None:
            failed = blocks.text(f"↻ Attempt {execution.attempt} failed", bold=True)
            yield blocks.section(
                failed, blocks.text(". The next one begins "), blocks.moment(execution.retry_at)
            )
            yield from _quoted("The tool said:", execution.error)
        case ExecutionStatus.FAILED if execution.nothing_done:
            yield blocks.section(blocks.text(NOTHING_WAS_DONE, bold=True), blocks.text(attempt))
            yield from _quoted("Why:", execution.error)
        case ExecutionStatus.FAILED:
            yield blocks.section(
                blocks.text("❌ Failed", bold=True),
                blocks.text(f" after {_duration(execution.seconds)}{attempt}"),
            )
            yield from _quoted("The tool said:", execution.error)
        case ExecutionStatus.IN_DOUBT if execution.settled_as in status_words.SETTLED:
            title = blocks.text(status_words.SETTLED[execution.settled_as], bold=True)
            was = blocks.text(f". It was in doubt{attempt}.")
            yield blocks.section(title, blocks.text(" by "), blocks.person(execution.settled_by), was)
        case ExecutionStatus.IN_DOUBT:
            yield blocks.section(
                blocks.text("⚠ In doubt", bold=True),
                blocks.text(f"{attempt}: nobody knows whether it happened. Please check, then settle it."),
            )
            yield from _quoted("What is known:", execution.error)


def _retry_votes(execution: ExecutionView, needed: int) -> Iterator[Json]:
    people = execution.retry_voters
    if not people or execution.settled_as is not None or execution.status is not ExecutionStatus.IN_DOUBT:
        return
    by = [part for person in people for part in (blocks.text(" "), blocks.person(person))]
    yield blocks.section(blocks.text(f"Retry: {status_words.progress(len(people), needed)}, by"), *by)


def _ended(view: RequestView) -> Json:
    words = OUTCOMES[view.status]
    return blocks.section(blocks.text(words.heading, bold=True), *_by(view), blocks.text(words.consequence))


def _asked_again(view: RequestView) -> Iterator[Json]:
    again = view.asked_again
    if again is None:
        return
    where: list[Json] = []
    if again.link:
        where = [blocks.text(": "), blocks.link(again.link, "its new card")]
    elif again.request_id:
        where = [blocks.text(" as request "), blocks.text(short_id(again.request_id), code=True)]
    yield blocks.section(
        blocks.text("↻ Asked again", bold=True), blocks.text(" by "), blocks.person(view.requester), *where
    )


def _by(view: RequestView, named: int = blocks.MAX_NAMED) -> list[Json]:
    """Return who decided, and when: " by @Grace, today at …"; a moment includes its own "at"."""
    decision = view.decision
    if decision is None:
        return []
    people = decision.deciders
    by = [blocks.text(" by "), *blocks.people(people, named)] if people else []
    return [*by, blocks.text(", "), blocks.moment(decision.at)]


def _reason(view: RequestView) -> Iterator[Json]:
    if view.decision and view.decision.reason:
        yield from _quoted(f"{OUTCOMES[view.decision.outcome].own_words}:", view.decision.reason)


def _votes(view: RequestView) -> Iterator[Json]:
    # The only vote that decided is in the status line.
    if view.approvals_required == 1 and view.status is not RequestStatus.WAITING:
        return
    if view.votes:
        yield blocks.bullets(_vote(vote) for vote in view.votes[:MAX_VOTES])
    if (more := len(view.votes) - MAX_VOTES) > 0:
        yield blocks.section(blocks.text(f"… and {more:,} more votes", italic=True))


def _vote(vote: VoteView) -> Json:
    verb = f" {VERDICTS[vote.verdict].outcome.status.word}, "
    words = vote.reason or (None if vote.answer is None else question.answer_in_words(vote.answer))
    reason = [blocks.text(f": “{inert.line(words, 120)}”", italic=True)] if words else []
    return blocks.section(blocks.person(vote.person), blocks.text(verb), blocks.moment(vote.at), *reason)


def _quoted(label: str, content: str | None) -> Iterator[Json]:
    if content and (shown := inert.paragraph(content, MAX_REASON, 8)):
        yield blocks.section(blocks.text(label, italic=True))
        yield blocks.quote(blocks.text(shown))


def _duration(seconds: float | None) -> str:
    return "an unknown time" if seconds is None else durations.seconds(seconds)
