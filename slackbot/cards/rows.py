"""The rows of lists: a request that waits, one that is decided, a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from agent.domain.request import RequestStatus
from agent.domain.request_list import HistoryLine, RequestLine
from agent.domain.run import RunView
from agent.domain.short_ids import short_id
from agent.domain.together import with_others
from agent.domain.verdicts import OUTCOMES
from signoff.values import Risk
from slackbot.cards import blocks, inert, status_words
from slackbot.cards.lines import run_words, until
from slackbot.cards.question import answer_in_words
from slackbot.cards.values import ACTION_CANCEL_RUN, ACTION_OPEN, Json

MAX_WORDS = 160


def request(line: RequestLine) -> list[Json]:
    """Return the row of a request in a list: its title and state, then risk, origin, deadline, channel and id."""
    return _row(
        inert.line(line.description, MAX_WORDS) or "no description",
        [blocks.text(", ".join(filter(None, [_sign(line), _progress(line)])))],
        [*_risk(line), *_origin(line), *_until(line), *_where(line.channel_id), _id(line.id)],
        _open(line),
    )


def decided_request(line: HistoryLine, link: str | None) -> list[Json]:
    """`link`: the thread address from Slack."""
    by = [blocks.text("decided by "), *blocks.people(line.deciders)] if line.deciders else []
    at = [blocks.text(", " if by else ""), blocks.moment(line.decided_at)] if line.decided_at else []
    together = with_others(line.others)
    form = [blocks.text(f" {together}")] if together else []
    decided = [[*by, *at, *form]] if by or at else []
    words = line.reason if line.answer is None else answer_in_words(line.answer)
    reason = [blocks.text(f"“{inert.line(words, MAX_WORDS)}”", italic=True)] if words else []
    thread = [blocks.link(link, "its thread")] if link else []
    below: list[Json | list[Json]] = [
        *decided,
        *reason,
        *_risk(line),
        *_origin(line),
        *_where(line.channel_id),
        *thread,
        _id(line.id),
    ]
    return _row(
        inert.line(line.description, MAX_WORDS) or "no description",
        [blocks.text(_sign(line))],
        below,
        _open(line),
    )


def run(view: RunView, *, cancellable: bool) -> list[Json]:
    """Return the row of a run in a list: its task and state, then agent, requester, channel and id."""
    below: list[Json | list[Json]] = [
        blocks.text(f"agent {inert.line(view.chain, 80)}"),
        [blocks.text("for "), blocks.person(view.requester, "nobody in Slack")],
        *_where(view.channel_id or ""),
        _id(view.id),
    ]
    title = inert.line(view.task, MAX_WORDS) or inert.line(view.chain, 80)
    state = [blocks.text(run_words(view)), *until(view)]
    return _row(title, state, below, *([_cancel(view)] if cancellable else []))


def _row(title: str, state: Sequence[Json], below: Iterable[Json | list[Json]], *buttons: Json) -> list[Json]:
    """A title with its state beside it, a line below, and its buttons, which also part it from the next row."""
    head = blocks.section(blocks.text(title, bold=True), blocks.text("  "), *state)
    return [blocks.rich_text(head, blocks.section(*_dotted(below))), *blocks.actions(*buttons)]


def _open(line: RequestLine) -> Json:
    about = line.description if inert.line(line.description, 10) else short_id(line.id)
    return blocks.button("Open", ACTION_OPEN, str(line.id), about)


def _sign(line: RequestLine) -> str:
    words = status_words.of_request(line.standing)
    return f"{OUTCOMES[line.status].sign} {words}" if line.standing is line.status else words


def _risk(line: RequestLine) -> Iterator[Json]:
    """An answer risks nothing."""
    if not line.wants_answer:
        yield blocks.text(f"{line.risk.value.capitalize()} risk", bold=line.risk >= Risk.HIGH)


def _id(of: UUID) -> Json:
    return blocks.text(short_id(of), code=True)


def _cancel(view: RunView) -> Json:
    about = f"{view.agent}, {view.task}"
    sure = blocks.confirm(
        "Cancel this run?",
        f"{inert.line(view.agent, 60)} stops, and its requests are withdrawn. What has already run is not undone.",
        "Cancel the run",
        style="danger",
    )
    return blocks.button("Cancel", ACTION_CANCEL_RUN, str(view.id), about, "danger", sure | {"deny": _KEEP})


_KEEP = blocks.plain("Keep it running", blocks.BUTTON_LIMIT)


def _origin(line: RequestLine) -> Iterator[list[Json]]:
    yield [blocks.text(f"agent {inert.line(line.chain, 80)}")]
    yield [blocks.text("for "), blocks.requester(line.behalf)]


def _progress(line: RequestLine) -> str:
    counted = status_words.counted(line)
    return status_words.progress(line.approvals, line.approvals_required, counted)


def _until(line: RequestLine) -> Iterator[list[Json]]:
    if line.status is RequestStatus.WAITING:
        yield [blocks.text("until "), blocks.moment(line.expires_at)]


def _where(channel_id: str) -> Iterator[Json]:
    if channel_id:
        yield blocks.channel(channel_id)


def _dotted(pieces: Iterable[Json | list[Json]]) -> Iterator[Json]:
    for number, piece in enumerate(pieces):
        if number:
            yield blocks.text(" · ")
        yield from piece if isinstance(piece, list) else [piece]
