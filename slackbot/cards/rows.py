"""The rows of lists: a request that waits, one that is decided, a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agent.domain.request import RequestStatus
from agent.domain.request_list import HistoryLine, RequestLine
from agent.domain.run import RunView
from agent.domain.short_ids import short_id
from slackbot.cards import blocks, inert, status_words
from slackbot.cards.lines import run_words, until
from slackbot.cards.values import ACTION_CANCEL_RUN, ACTION_OPEN, Json

MAX_WORDS = 160


def request(line: RequestLine) -> list[Json]:
    """Return the rows of a request in a list: its title, then its state, origin, deadline, channel and id."""
    return [
        _title(line),
        _below(
            blocks.text(", ".join(filter(None, [status_words.of_request(line.standing), _progress(line)]))),
            *_origin(line),
            *_until(line),
            *_where(line.channel_id),
            blocks.text(short_id(line.id), code=True),
        ),
    ]


def decided_request(line: HistoryLine, link: str | None) -> list[Json]:
    """`link`: the thread address from Slack."""
    decided = " by " if line.standing is line.status else " · decided by "  # not done by the reviewer
    by = [blocks.text(decided), *blocks.people(line.deciders)] if line.deciders else []
    at = [blocks.text(", "), blocks.moment(line.decided_at)] if line.decided_at else []
    reason = [blocks.text(f"“{inert.line(line.reason, MAX_WORDS)}”", italic=True)] if line.reason else []
    thread = [blocks.link(link, "its thread")] if link else []
    first = blocks.section(blocks.text(status_words.of_request(line.standing), bold=True), *by, *at)
    rest = _below(
        *reason, *_origin(line), *_where(line.channel_id), *thread, blocks.text(short_id(line.id), code=True)
    )
    return [_title(line), blocks.rich_text(first, *rest["elements"])]


def run(view: RunView, *, cancellable: bool) -> list[Json]:
    """Return the rows of a run in a list: its task, then its state, requester, channel and id."""
    title = f"{inert.line(view.chain, 80)}: {inert.line(view.task, MAX_WORDS)}"
    below = _below(
        [blocks.text(run_words(view), bold=True), *until(view)],
        blocks.person(view.requester, "nobody in Slack"),
        *([blocks.channel(view.channel_id)] if view.channel_id else []),
        blocks.text(short_id(view.id), code=True),
    )
    return [blocks.labelled(title, _cancel(view) if cancellable else None), below]


def _title(line: RequestLine) -> Json:
    title = (
        f"{line.risk.value.capitalize()} risk · {inert.line(line.description, MAX_WORDS) or 'no description'}"
    )
    about = line.description if inert.line(line.description, 10) else short_id(line.id)
    return blocks.labelled(title, blocks.button("Open", ACTION_OPEN, str(line.id), about))


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
    return status_words.progress(line.approvals, line.approvals_required)


def _until(line: RequestLine) -> Iterator[list[Json]]:
    if line.status is RequestStatus.WAITING:
        yield [blocks.text("until "), blocks.moment(line.expires_at)]


def _where(channel_id: str) -> Iterator[Json]:
    if channel_id:
        yield blocks.channel(channel_id)


def _below(*pieces: Json | list[Json]) -> Json:
    return blocks.rich_text(blocks.section(*_dotted(pieces)))


def _dotted(pieces: Iterable[Json | list[Json]]) -> Iterator[Json]:
    for number, piece in enumerate(pieces):
        if number:
            yield blocks.text(" · ")
        yield from piece if isinstance(piece, list) else [piece]
