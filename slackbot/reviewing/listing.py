"""Lists of what a person may see. Each page looks up current rights."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from agent.database.pools import Database
from agent.domain.request_list import (
    Count,
    HistoryLine,
    RequestFilter,
    RequestKind,
    RequestLine,
    RequestOrder,
)
from agent.domain.run import RunStatus, RunView
from agent.store import views
from signoff.values import Person
from slackbot.cards.cursor import Cursor
from slackbot.masking import clean_lines, clean_runs, hidden_values
from slackbot.reviewing.visibility import (
    Audience,
    ReviewerScope,
    reviewer_scope,
    seen_audiences,
    visible_audiences,
    visible_runs,
)
from slackbot.slack_api.directory import Directory

T = TypeVar("T")
Line = TypeVar("Line", bound=RequestLine)


class _Found(Audience, Protocol):
    @property
    def own(self) -> bool: ...


Found = TypeVar("Found", bound=_Found)

BATCH = 100
REACH = 500
"""How far one page looks for visible lines; the next page continues there."""

MAX_COUNTED = 200
"""Keeps counts quick."""

MAX_EXACT = 2_000
"""For exact counts, which follow the page."""

MAX_CHOICES = 200
"""Latest requests that supply the choices of a filter."""

EVERYTHING = RequestFilter()

GOING = frozenset({RunStatus.WORKING, RunStatus.PENDING_APPROVAL})


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """A masked page; ``count`` covers all pages."""

    lines: Sequence[T] = ()
    back: Cursor | None = None
    forward: Cursor | None = None
    count: Count | None = None


@dataclass(frozen=True, slots=True)
class FilterChoices:
    """A filter's choices, from the latest requests in a list that the person may see."""

    agents: Sequence[str] = ()
    checkpoints: Sequence[str] = ()
    requesters: Sequence[str] = ()
    """User ids, as are those of ``deciders``."""
    deciders: Sequence[str] = ()
    channels: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class PersonalLists:
    """A person's lists of requests and runs, each limited to what this person may see now."""

    db: Database
    directory: Directory
    person: Person

    async def waiting_for_me(
        self,
        at: Cursor,
        size: int,
        wanted: RequestFilter = EVERYTHING,
        order: RequestOrder = RequestOrder.DEADLINE,
    ) -> ListPage[RequestLine]:
        return await self._for_me(await self._scope(), at, size, wanted, order)

    async def next_for_me(self, after: UUID) -> tuple[RequestLine | None, Count]:
        """Start over behind the last request; also returns how many there are."""
        scope = await self._scope()
        found = await self._for_me(scope, Cursor(), 1, EVERYTHING, RequestOrder.DEADLINE)
        later = await self._for_me(scope, Cursor((after,)), 1, EVERYTHING, RequestOrder.DEADLINE)
        return next(iter([*later.lines, *found.lines]), None), found.count or Count(0)

    async def waiting_for_others(
        self,
        at: Cursor,
        size: int,
        wanted: RequestFilter = EVERYTHING,
        order: RequestOrder = RequestOrder.DEADLINE,
    ) -> tuple[ListPage[RequestLine], ListPage[HistoryLine]]:
        """Both lists are counted."""
        audiences = await self._audiences()
        scope = await reviewer_scope(self.directory, self.person, audiences)
        return await asyncio.gather(
            self._for_me(scope, at, size, wanted, order),
            self._for_others(scope, audiences, size, wanted, order),
        )

    async def asked_by_me(self, at: Cursor, size: int) -> ListPage[RequestLine]:
        found = await self.db.read(views.requests_of, self.person, size + 1, at.after)
        return await self._page(found, at, size)

    async def found(
        self,
        kind: RequestKind,
        wanted: RequestFilter,
        at: Cursor,
        size: int,
        order: RequestOrder = RequestOrder.NEWEST,
    ) -> ListPage[HistoryLine]:
        found: list[UUID] = []
        after = at.after
        for limit in (2 * (size + 1), REACH):
            batch = await self.db.read(
                views.found_for, self.person, kind, wanted, order, limit=limit, after=after
            )
            found += [each.id for each in await self._shown(batch)]
            after = batch[-1].id if batch else after
            if len(found) > size or (len(batch) < limit and not any(each.cut for each in batch)):
                after = None
                break
        lines = await self.db.read(views.history_lines, found[: size + 1])
        if after is None:
            return await self._page(lines, at, size)
        return ListPage(await self._clean(lines), at.back, at.forward(after))

    async def count(self, kind: RequestKind, wanted: RequestFilter, at_most: int = MAX_COUNTED) -> Count:
        """The number on all pages of `found`."""
        counts, more = await self._counts(kind, wanted, at_most)
        return Count(sum(each.number for each in counts), more)

    async def count_for_me(self, wanted: RequestFilter, at_most: int = MAX_COUNTED) -> Count:
        scope = await self._scope()
        theirs = (self._team, self.person.user_id, scope.roles, scope.channels)
        return await self.db.read(views.count_waiting_for, *theirs, at_most, wanted)

    async def count_for_others(self, wanted: RequestFilter, at_most: int = MAX_COUNTED) -> Count:
        audiences = await self._audiences()
        scope = await reviewer_scope(self.directory, self.person, audiences)
        theirs = await self._seen_by(scope, audiences)
        return await self.db.read(views.count_waiting_for_others, *theirs, wanted, at_most)

    async def choices(self, kind: RequestKind) -> FilterChoices:
        found = await self.db.read(views.filter_choices, self.person, kind, MAX_CHOICES)
        shown = await self._shown(found)
        return FilterChoices(
            sorted({agent for each in shown for agent in each.agents}),
            sorted({checkpoint for each in shown for checkpoint in each.checkpoints}),
            sorted({user_id for each in shown for user_id in each.requesters}),
            sorted({user_id for each in shown for user_id in each.deciders}),
            sorted({each.channel_id for each in shown}),
        )

    async def latest_decided(self, size: int) -> Sequence[HistoryLine]:
        """Return those that the person may see among the latest `BATCH`: fewer than ``size`` if most are others'."""
        if not size:
            return ()
        latest = RequestKind.DECIDED, EVERYTHING, RequestOrder.NEWEST
        shown = await self._shown(await self.db.read(views.found_for, self.person, *latest, limit=BATCH))
        return await self._clean(await self.db.read(views.history_lines, [each.id for each in shown[:size]]))

    async def latest_runs(self, *, running: bool = False) -> list[RunView]:
        """Visible runs among the workspace's latest, or those at work."""
        async with self.db.connection() as connection:
            if running:
                found = await views.running(connection, self._team, BATCH)
            else:
                found = await views.recent_runs(connection, team_id=self._team, limit=BATCH)
        return await visible_runs(self.directory, self.person, found)

    def cancellable(self, runs: Sequence[RunView]) -> frozenset[UUID]:
        return frozenset(run.id for run in runs if run.requester == self.person and run.status in GOING)

    @property
    def _team(self) -> str:
        return self.directory.own_team_id

    async def _scope(self) -> ReviewerScope:
        return await reviewer_scope(self.directory, self.person, await self._audiences())

    async def _audiences(self) -> list[tuple[tuple[str, ...], str]]:
        return await self.db.read(views.audiences, self._team)

    async def _for_me(
        self, scope: ReviewerScope, at: Cursor, size: int, wanted: RequestFilter, order: RequestOrder
    ) -> ListPage[RequestLine]:
        theirs = (self._team, self.person.user_id, scope.roles, scope.channels)
        async with self.db.connection() as connection:
            found = await views.waiting_for(connection, *theirs, size + 1, at.after, wanted, order)
            only_page = not at.steps and len(found) <= size
            count = (
                Count(len(found))
                if only_page
                else await views.count_waiting_for(connection, *theirs, wanted=wanted)
            )
        return await self._page(found, at, size, count)

    async def _for_others(
        self,
        scope: ReviewerScope,
        audiences: Sequence[tuple[tuple[str, ...], str]],
        size: int,
        wanted: RequestFilter,
        order: RequestOrder,
    ) -> ListPage[HistoryLine]:
        theirs = await self._seen_by(scope, audiences)
        async with self.db.connection() as connection:
            count = await views.count_waiting_for_others(connection, *theirs, wanted, MAX_COUNTED)
            found = await views.waiting_for_others(connection, *theirs, size + 1, wanted, order)
        return await self._page(found, Cursor(), size, count)

    async def _seen_by(
        self, scope: ReviewerScope, audiences: Sequence[tuple[tuple[str, ...], str]]
    ) -> tuple[Person, Sequence[str], Sequence[str], Sequence[tuple[tuple[str, ...], str]]]:
        if not await self.directory.is_admin(self.person):
            audiences = list(await seen_audiences(self.directory, self.person, audiences))
        return self.person, scope.roles, scope.channels, audiences

    async def _counts(
        self, kind: RequestKind, wanted: RequestFilter, at_most: int
    ) -> tuple[list[views.AudienceCount], bool]:
        """Also returns whether there are more."""
        found = await self.db.read(views.audience_counts, self.person, kind, wanted, at_most + 1)
        more = sum(each.number for each in found) > at_most or any(each.cut for each in found)
        return await self._shown(found), more

    async def _shown(self, found: Sequence[Found]) -> list[Found]:
        """Those that this person may see."""
        seen = await visible_audiences(self.directory, self.person, found)
        return [each for each in found if each.own or (each.approvers, each.channel_id) in seen]

    async def _page(
        self, found: Sequence[Line], at: Cursor, size: int, count: Count | None = None
    ) -> ListPage[Line]:
        """One line more than ``size`` means another page."""
        forward = at.forward(found[size - 1].id) if len(found) > size else None
        return ListPage(await self._clean(found[:size]), at.back, forward, count)

    async def _clean(self, found: Sequence[Line]) -> Sequence[Line]:
        """Mask secrets; those in a reason are known only from the whole request."""
        with_reason = [line.id for line in found if isinstance(line, HistoryLine) and line.reason]
        if not with_reason:
            return await clean_lines(found)
        requests = await self.db.read(views.request_views, with_reason)
        return await clean_lines(found, {view.id: await hidden_values(view) for view in requests})


async def without_secrets(db: Database, runs: Sequence[RunView]) -> list[RunView]:
    """What a run's calls hide is hidden in its texts, too."""
    values = await db.read(views.values_of, [run.id for run in runs])
    return await clean_runs(runs, values=values)
