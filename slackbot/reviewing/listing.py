"""Lists of what a person may see, the same on every surface: a page at a time, looked up again for each page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar
from uuid import UUID

from agent.database.pools import Database
from agent.domain.eligibility import exclusion_of
from agent.domain.people import CHANNEL
from agent.domain.request import Count, HistoryLine, RequestLine, RequestStatus
from agent.domain.run import RunStatus, RunView
from agent.store import views
from signoff.values import Person
from slackbot.cards.cursor import Cursor
from slackbot.masking import clean_lines, clean_runs
from slackbot.reviewing.visibility import ReviewerScope, reviewer_scope, visible_lines, visible_runs
from slackbot.slack_api.directory import Directory

T = TypeVar("T")
Line = TypeVar("Line", bound=RequestLine)

BATCH = 100
MOST_BATCHES = 5
"""How far one page looks for lines that its reader may see; the next page goes on from there."""

GOING = frozenset({RunStatus.WORKING, RunStatus.PENDING_APPROVAL})
"""A run in one of these states can be cancelled."""


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """A page of a list, without secrets, and where the pages beside it begin (None: there is none).

    ``count`` is how many there are on all pages, where that was counted.
    """

    lines: Sequence[T] = ()
    back: Cursor | None = None
    forward: Cursor | None = None
    count: Count | None = None


@dataclass(frozen=True, slots=True)
class ListFilter:
    """What somebody looks for. ``words`` stand in the description; ``person`` asked or decided.

    ``key`` is the one of the program that asks.
    """

    status: RequestStatus | None = None
    agent: str = ""
    person: Person | None = None
    since: datetime | None = None
    words: str = ""
    key: str = ""

    def has_words(self, line: RequestLine) -> bool:
        """Whether each word stands in the description or the agents' names, or begins the id."""
        folded = f"{line.description} {line.chain}".casefold()
        return all(word in folded or str(line.id).startswith(word) for word in self.words.casefold().split())

    def fits(self, line: RequestLine) -> bool:
        """Whether a waiting request is looked for: there the database is asked about none of this."""
        return (
            (not self.agent or line.agent == self.agent)
            and (not self.key or line.principal == f"key:{self.key}")
            and self.person in (None, line.requester)
            and (self.since is None or line.created_at >= self.since)
            and self.has_words(line)
        )


@dataclass(frozen=True, slots=True)
class PersonalLists:
    """The lists of one person."""

    db: Database
    directory: Directory
    person: Person

    async def waiting_for_me(self, at: Cursor, size: int) -> ListPage[RequestLine]:
        """What this person may decide now, oldest first, counted."""
        return (await self._waiting_for_me(at, size))[0]

    async def next_for_me(self, after: UUID) -> tuple[RequestLine | None, Count]:
        """What this person may decide after that request, from the beginning again behind the last; and how much."""
        found, _ = await self._waiting_for_me(Cursor(), 1)
        later, _ = await self._waiting_for_me(Cursor((after,)), 1)
        return next(iter([*later.lines, *found.lines]), None), found.count or Count(0)

    async def waiting_for_others(
        self, at: Cursor, size: int
    ) -> tuple[ListPage[RequestLine], ListPage[RequestLine]]:
        """What waits for this person, and the first of what they may see that others decide."""
        mine, scope = await self._waiting_for_me(at, size)
        async with self.db.connection() as connection:
            first = await views.waiting_requests(connection, team_id=self._team, limit=BATCH)
        shown = {line.id for line in mine.lines}
        rest = [line for line in first if line.id not in shown and not _is_for(line, self.person, scope)]
        others = await visible_lines(self.directory, self.person, rest)
        more = Cursor() if len(others) > size or len(first) == BATCH else None
        return mine, ListPage(await clean_lines(others[:size]), None, more)

    async def asked_by_me(self, at: Cursor, size: int) -> ListPage[RequestLine]:
        """What was asked on this person's behalf, newest first."""
        async with self.db.connection() as connection:
            found = await views.requests_of(connection, self.person, size + 1, at.after)
        return await _page(found, at, size)

    async def waiting(self, wanted: ListFilter, at: Cursor, size: int) -> ListPage[RequestLine]:
        """What waits and this person may see, oldest first."""

        async def fetch(after: UUID | None) -> list[RequestLine]:
            async with self.db.connection() as connection:
                return await views.waiting_requests(connection, team_id=self._team, limit=BATCH, after=after)

        return await self._visible(fetch, wanted.fits, at, size, MOST_BATCHES)

    async def decided(
        self, wanted: ListFilter, at: Cursor, size: int, *, batches: int = MOST_BATCHES
    ) -> ListPage[HistoryLine]:
        """What has an outcome and this person may see, the latest outcome first."""

        async def fetch(after: UUID | None) -> list[HistoryLine]:
            async with self.db.connection() as connection:
                return await views.history(
                    connection,
                    self._team,
                    agent=wanted.agent or None,
                    person=wanted.person,
                    status=wanted.status,
                    since=wanted.since,
                    limit=BATCH,
                    after=after,
                )

        return await self._visible(fetch, wanted.has_words, at, size, batches)

    async def latest_decided(self, size: int) -> Sequence[HistoryLine]:
        """The latest outcomes that this person may see."""
        return (await self.decided(ListFilter(), Cursor(), size, batches=1)).lines

    async def latest_runs(self, *, running: bool = False) -> list[RunView]:
        """The runs that this person may see among the latest of the workspace, or among those at work."""
        async with self.db.connection() as connection:
            if running:
                found = await views.running(connection, self._team, BATCH)
            else:
                found = await views.recent_runs(connection, team_id=self._team, limit=BATCH)
        return await visible_runs(self.directory, self.person, found)

    def cancellable(self, runs: Sequence[RunView]) -> frozenset[UUID]:
        """Their own among these runs that can still be cancelled."""
        return frozenset(run.id for run in runs if run.requester == self.person and run.status in GOING)

    @property
    def _team(self) -> str:
        return self.directory.own_team_id

    async def _waiting_for_me(self, at: Cursor, size: int) -> tuple[ListPage[RequestLine], ReviewerScope]:
        async with self.db.connection() as connection:
            audiences = await views.audiences(connection, self._team)
        scope = await reviewer_scope(self.directory, self.person, audiences)
        theirs = (self._team, self.person.user_id, scope.roles, scope.channels)
        async with self.db.connection() as connection:
            found = await views.waiting_for(connection, *theirs, size + 1, at.after)
            only_page = not at.steps and len(found) <= size
            count = Count(len(found)) if only_page else await views.count_waiting_for(connection, *theirs)
        return await _page(found, at, size, count), scope

    async def _visible(
        self,
        fetch: Callable[[UUID | None], Awaitable[Sequence[Line]]],
        fits: Callable[[Line], bool],
        at: Cursor,
        size: int,
        batches: int,
    ) -> ListPage[Line]:
        found: list[Line] = []
        after = at.after
        for _ in range(batches):
            batch = await fetch(after)
            found += await visible_lines(self.directory, self.person, [each for each in batch if fits(each)])
            if len(found) > size or len(batch) < BATCH:
                return await _page(found, at, size)
            after = batch[-1].id
        return ListPage(await clean_lines(found), at.back, at.forward(after) if after else None)


async def without_secrets(db: Database, runs: Sequence[RunView]) -> list[RunView]:
    """Copies of runs that can be shown: what their calls hide by a name or by policy is hidden in their texts too."""
    async with db.connection() as connection:
        values = await views.values_of(connection, [run.id for run in runs])
    return await clean_runs(runs, values=values)


async def _page(found: Sequence[Line], at: Cursor, size: int, count: Count | None = None) -> ListPage[Line]:
    """The first of these lines; one more than ``size`` says that there is another page."""
    forward = at.forward(found[size - 1].id) if len(found) > size else None
    return ListPage(await clean_lines(found[:size]), at.back, forward, count)


def _is_for(line: RequestLine, person: Person, scope: ReviewerScope) -> bool:
    """Whether it stands, or will stand, among what waits for this person."""
    if exclusion_of(line.excluded, person) or person in line.voters:
        return False
    named = {person.user_id, *scope.roles} & set(line.approvers)
    return bool(named) or (CHANNEL in line.approvers and line.channel_id in scope.channels)
