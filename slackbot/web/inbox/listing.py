"""What lies in the lists of the pages, a page at a time: only what its reader may see, looked up anew."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from agent.domain.people import CHANNEL
from agent.domain.request import HistoryLine, RequestLine, RequestStatus
from agent.store import views
from signoff.values import Person
from slackbot.cards.cursor import Cursor
from slackbot.masking import clean_lines
from slackbot.reviewing.visibility import ReviewerScope, reviewer_scope, visible_lines
from slackbot.web.http.context import WebContext

Line = TypeVar("Line", bound=RequestLine)

PAGE = 25
BATCH = 100
MOST_BATCHES = 5
"""How far one page looks for lines that fit; the next page goes on from there."""


@dataclass(frozen=True, slots=True)
class ListPage(Generic[Line]):
    """A page of lines, and where the pages beside it begin; ``None``: there is none."""

    lines: Sequence[Line] = ()
    back: Cursor | None = None
    forward: Cursor | None = None


@dataclass(frozen=True, slots=True)
class ListFilter:
    """What somebody looks for. ``words`` stand in the description, ``person`` asked or decided."""

    status: RequestStatus | None = None
    agent: str = ""
    person: str = ""
    since: datetime | None = None
    words: str = ""

    def fits(self, line: RequestLine) -> bool:
        """What the database is not asked about."""
        folded = f"{line.description} {line.chain}".casefold()
        return all(word in folded or str(line.id).startswith(word) for word in self.words.casefold().split())


@dataclass(frozen=True, slots=True)
class WaitingLists:
    """What waits: for this person first, then what others decide."""

    mine: ListPage[RequestLine] = field(default_factory=ListPage)
    others: ListPage[RequestLine] = field(default_factory=ListPage)


async def waiting(ctx: WebContext, person: Person, at: Cursor) -> WaitingLists:
    """Everything that waits and that this person may see; ``at`` is a place in what waits for them."""
    slack = ctx.slack
    async with ctx.db.connection() as connection:
        audiences = await views.audiences(connection, slack.team_id)
    scope = await reviewer_scope(slack.directory, person, audiences)
    async with ctx.db.connection() as connection:
        found = await views.waiting_for(
            connection, slack.team_id, person.user_id, scope.roles, scope.channels, PAGE + 1, at.after
        )
        first = await views.waiting_requests(connection, team_id=slack.team_id, limit=BATCH)
    shown = {line.id for line in found}
    rest = [line for line in first if line.id not in shown and not _is_for(line, person, scope)]
    others = await visible_lines(slack.directory, person, rest)
    lines = await clean_lines([*found[:PAGE], *others[:PAGE]])
    mine = lines[: len(found[:PAGE])]
    forward = at.forward(found[PAGE - 1].id) if len(found) > PAGE else None
    more = Cursor() if len(others) > PAGE or len(first) == BATCH else None
    return WaitingLists(ListPage(mine, at.back, forward), ListPage(lines[len(mine) :], None, more))


def _is_for(line: RequestLine, person: Person, scope: ReviewerScope) -> bool:
    """Whether it stands, or will stand, among what waits for this person."""
    if person == line.requester or person in line.voters:
        return False
    named = {person.user_id, *scope.roles} & set(line.approvers)
    return bool(named) or (CHANNEL in line.approvers and line.channel_id in scope.channels)


async def recently_decided(ctx: WebContext, person: Person, most: int = 5) -> list[HistoryLine]:
    """The latest outcomes that this person may see."""
    async with ctx.db.connection() as connection:
        found = await views.history(connection, ctx.slack.team_id, limit=4 * most)
    return await clean_lines((await visible_lines(ctx.slack.directory, person, found))[:most])


async def search(ctx: WebContext, person: Person, wanted: ListFilter, at: Cursor) -> ListPage[RequestLine]:
    """What was decided, or what waits, as it is looked for; newest first, what waits oldest first."""
    team_id = ctx.slack.team_id

    async def fetch(after: UUID | None) -> Sequence[RequestLine]:
        async with ctx.db.connection() as connection:
            if wanted.status is RequestStatus.WAITING:
                return await views.waiting_requests(connection, team_id=team_id, limit=BATCH, after=after)
            return await views.history(
                connection, team_id, **_asked(wanted, team_id), limit=BATCH, after=after
            )

    found, last = await _walk(ctx, person, wanted, at.after, fetch)
    return ListPage(await clean_lines(found), at.back, at.forward(last) if last else None)


def _asked(wanted: ListFilter, team_id: str) -> dict[str, Any]:
    return {
        "agent": wanted.agent or None,
        "person": Person(team_id, wanted.person) if wanted.person else None,
        "status": wanted.status,
        "since": wanted.since,
    }


async def _walk(
    ctx: WebContext,
    person: Person,
    wanted: ListFilter,
    after: UUID | None,
    fetch: Callable[[UUID | None], Awaitable[Sequence[RequestLine]]],
) -> tuple[list[RequestLine], UUID | None]:
    """A page of what fits and may be seen, and where the next one begins; ``None``: nowhere."""
    found: list[RequestLine] = []
    for _ in range(MOST_BATCHES):
        batch = await fetch(after)
        fitting = [line for line in batch if _fits(line, wanted)]
        found += await visible_lines(ctx.slack.directory, person, fitting)
        if len(found) > PAGE:
            return found[:PAGE], found[PAGE - 1].id
        if len(batch) < BATCH:
            return found, None
        after = batch[-1].id
    return found, after


def _fits(line: RequestLine, wanted: ListFilter) -> bool:
    """For what waits, the database was not asked about agent, person and time."""
    if line.status is RequestStatus.WAITING:
        if wanted.agent and line.agent != wanted.agent:
            return False
        if wanted.person and (line.requester is None or line.requester.user_id != wanted.person):
            return False
        if wanted.since and line.created_at < wanted.since:
            return False
    return wanted.fits(line)
