"""Lists of requests and runs, a page at a time: what is shown is what this person may see, looked up anew.

A list is named by a word and a query, both of which travel in its paging buttons and are claims like any other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from agent.domain.errors import Refusal, Refused
from agent.domain.request import HistoryLine, RequestLine, RequestStatus
from agent.domain.run import RunStatus, RunView
from agent.store import views
from signoff.values import Person
from slackbot.cards import PAGE_OF_WAITING, Card, Pages, history_list, page_value, request_list, run_list
from slackbot.cards.cursor import Cursor
from slackbot.masking import clean_lines, clean_runs
from slackbot.reviewing.visibility import reviewer_scope, visible_lines, visible_runs
from slackbot.slack.listeners.context import ListenerContext

Line = TypeVar("Line", bound=RequestLine)
Query = Mapping[str, str]

PAGE = 10
"""Rows of a page: they stay well below what a message may weigh."""

BATCH = 100
MOST_BATCHES = 5
"""How far one page looks for lines that its reader may see; the next page goes on from there."""

GOING = frozenset({RunStatus.WORKING, RunStatus.PENDING_APPROVAL})

TODO = "todo"
MINE = "mine"
HISTORY = "history"


async def waiting_for_me(ctx: ListenerContext, person: Person, query: Query) -> Card:
    """What this person may decide now."""
    cursor, team_id = Cursor.read(query.get("at")), ctx.directory.own_team_id
    async with ctx.db.connection() as connection:
        audiences = await views.audiences(connection, team_id)
    scope = await reviewer_scope(ctx.directory, person, audiences)
    async with ctx.db.connection() as connection:
        found = await views.waiting_for(
            connection, team_id, person.user_id, scope.roles, scope.channels, PAGE + 1, cursor.after
        )
        count = await views.count_waiting_for(
            connection, team_id, person.user_id, scope.roles, scope.channels
        )
    return request_list(
        await clean_lines(found[:PAGE]),
        heading="Waiting for you",
        count=count,
        empty="Nothing waits for you.",
        pages=_pages(TODO, query, cursor, found[PAGE - 1].id if len(found) > PAGE else None),
    )


async def mine(ctx: ListenerContext, person: Person, query: Query) -> Card:
    """What was asked on this person's behalf."""
    cursor = Cursor.read(query.get("at"))
    async with ctx.db.connection() as connection:
        found = await views.requests_of(connection, person, PAGE + 1, cursor.after)
    return request_list(
        await clean_lines(found[:PAGE]),
        heading="Your requests",
        empty="Nothing was asked on your behalf yet.",
        pages=_pages(MINE, query, cursor, found[PAGE - 1].id if len(found) > PAGE else None),
    )


async def waiting(ctx: ListenerContext, person: Person, query: Query) -> Card:
    """Everything that waits and that this person may see; of one `agent`, if the query says so."""
    cursor, agent, team_id = Cursor.read(query.get("at")), query.get("agent"), ctx.directory.own_team_id

    async def fetch(after: UUID | None) -> list[RequestLine]:
        async with ctx.db.connection() as connection:
            return await views.waiting_requests(connection, team_id=team_id, limit=BATCH, after=after)

    found, last = await _visible(
        ctx, person, cursor, fetch, lambda line: agent is None or line.agent.startswith(agent)
    )
    return request_list(
        await clean_lines(found),
        heading=f"Waiting, of agent {agent}" if agent else "Waiting for review",
        empty="Nothing waits for review that you may see.",
        pages=_pages(PAGE_OF_WAITING, query, cursor, last),
    )


async def history(ctx: ListenerContext, person: Person, query: Query) -> Card:
    """What was decided, by agent, user, status and since; with links to the threads."""
    cursor, team_id = Cursor.read(query.get("at")), ctx.directory.own_team_id
    filters = _filters(team_id, query)

    async def fetch(after: UUID | None) -> list[HistoryLine]:
        async with ctx.db.connection() as connection:
            return await views.history(connection, team_id, **filters, limit=BATCH, after=after)

    found, last = await _visible(ctx, person, cursor, fetch, lambda _: True)
    links = await ctx.permalinks.of([line.thread for line in found if line.thread])
    return history_list(
        await clean_lines(found),
        links={line.id: links[line.thread] for line in found if line.thread in links},
        pages=_pages(HISTORY, query, cursor, last),
    )


LISTS: dict[str, Callable[[ListenerContext, Person, Query], Awaitable[Card]]] = {
    TODO: waiting_for_me,
    MINE: mine,
    PAGE_OF_WAITING: waiting,
    HISTORY: history,
}


async def page(ctx: ListenerContext, person: Person, what: str, query: Query) -> Card | None:
    """A page of a list; `None`: there is no such list. Raises Refused for who does not belong here."""
    made = LISTS.get(what)
    if made is None:
        return None
    standing = await ctx.directory.identify(person)
    if standing.refusal is not None:
        raise Refused(standing.refusal)
    try:
        return await made(ctx, person, query)
    except ValueError:
        raise Refused(Refusal.UNKNOWN_REQUEST) from None


async def recent_runs(ctx: ListenerContext, person: Person) -> Card:
    """The latest runs that this person may see; their own can be cancelled from here."""
    async with ctx.db.connection() as connection:
        found = await views.recent_runs(connection, team_id=ctx.directory.own_team_id, limit=BATCH)
    seen = await visible_runs(ctx.directory, person, found)
    going = frozenset(run.id for run in seen if run.requester == person and run.status in GOING)
    return run_list(await clean_visible_runs(ctx, seen[:PAGE]), more=len(seen) > PAGE, cancellable=going)


async def clean_visible_runs(ctx: ListenerContext, runs: Sequence[RunView]) -> list[RunView]:
    """Without secrets: neither such as have a shape, nor what their calls hide by a name or by policy."""
    async with ctx.db.connection() as connection:
        values = await views.values_of(connection, [run.id for run in runs])
    return await clean_runs(runs, values=values)


async def _visible(
    ctx: ListenerContext,
    person: Person,
    cursor: Cursor,
    fetch: Callable[[UUID | None], Awaitable[list[Line]]],
    wanted: Callable[[Line], bool],
) -> tuple[list[Line], UUID | None]:
    """A page of the lines that this person may see, and where the next one begins; `None`: nowhere."""
    found: list[Line] = []
    after = cursor.after
    for _ in range(MOST_BATCHES):
        batch = await fetch(after)
        lines = [line for line in batch if wanted(line)]
        found += await visible_lines(ctx.directory, person, lines)
        if len(found) > PAGE:
            return found[:PAGE], found[PAGE - 1].id
        if len(batch) < BATCH:
            return found, None
        after = batch[-1].id
    return found, after


def _filters(team_id: str, query: Query) -> dict[str, Any]:
    """Raises ValueError for what no list of ours says."""
    return {
        "agent": query.get("agent"),
        "person": Person(team_id, query["user"]) if "user" in query else None,
        "status": RequestStatus(query["status"]) if "status" in query else None,
        "since": datetime.fromisoformat(query["since"]) if "since" in query else None,
    }


def _pages(what: str, query: Query, cursor: Cursor, last: UUID | None) -> Pages:
    kept = {name: value for name, value in query.items() if name != "at"}

    def to(there: Cursor | None) -> str | None:
        return None if there is None else page_value(what, **kept, at=str(there) or None)

    return Pages(back=to(cursor.back), forward=to(cursor.forward(last)) if last else None)
