"""Lists as answers to commands and in modals. Word and query travel in the paging buttons, as claims."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from agent.domain.errors import Refusal, Refused
from agent.domain.request import RequestStatus
from agent.domain.request_filter import RequestFilter, RequestKind, RequestOrder
from signoff.values import Person
from slackbot.cards import (
    PAGE_OF_HISTORY,
    PAGE_OF_WAITING,
    Card,
    Pages,
    history_list,
    page_value,
    request_list,
    run_list,
)
from slackbot.cards.cursor import Cursor
from slackbot.reviewing.listing import ListPage, PersonalLists, without_secrets
from slackbot.slack.listeners.context import ListenerContext

Query = Mapping[str, str]

PAGE = 10
"""Rows; well below a message's limit."""

TODO = "todo"
MINE = "mine"

_FOLDED = {"yes": True, "no": False}


async def _waiting_for_me(ctx: ListenerContext, person: Person, query: Query) -> Card:
    page = await _lists(ctx, person).waiting_for_me(_at(query), PAGE)
    return request_list(
        page.lines,
        heading="Waiting for you",
        count=page.count,
        empty="Nothing waits for you.",
        pages=_pages(TODO, query, page),
    )


async def _mine(ctx: ListenerContext, person: Person, query: Query) -> Card:
    page = await _lists(ctx, person).asked_by_me(_at(query), PAGE)
    return request_list(
        page.lines,
        heading="Your requests",
        empty="Nothing has been asked on your behalf yet.",
        pages=_pages(MINE, query, page),
    )


async def _waiting(ctx: ListenerContext, person: Person, query: Query) -> Card:
    """Behind a digest (`agent` or `key`), requests without a card come first."""
    agent, key, folded = query.get("agent", ""), query.get("key", ""), _FOLDED.get(query.get("folded", ""))
    wanted = RequestFilter(agent=agent, key=key, folded=folded)
    page = await _lists(ctx, person).found(RequestKind.WAITING, wanted, _at(query), PAGE, RequestOrder.OLDEST)
    pages = _pages(PAGE_OF_WAITING, query, page)
    if folded and pages.forward is None:
        rest = {"agent": agent, "key": key, "folded": "no"}
        if not page.lines:
            return await _waiting(ctx, person, rest)
        pages = replace(pages, forward=page_value(PAGE_OF_WAITING, **rest))
    of_whom = f", of agent {agent}" if agent else f", of the key {key}" if key else ""
    return request_list(
        page.lines,
        heading=f"Waiting{of_whom}" if of_whom else "Waiting for review",
        empty="Nothing waits for review that you may see.",
        pages=pages,
    )


async def _history(ctx: ListenerContext, person: Person, query: Query) -> Card:
    wanted = _filter(ctx.directory.own_team_id, query)
    page = await _lists(ctx, person).found(RequestKind.DECIDED, wanted, _at(query), PAGE)
    links = await ctx.permalinks.of([line.thread for line in page.lines if line.thread])
    return history_list(
        page.lines,
        links={line.id: links[line.thread] for line in page.lines if line.thread in links},
        pages=_pages(PAGE_OF_HISTORY, query, page),
    )


LISTS: dict[str, Callable[[ListenerContext, Person, Query], Awaitable[Card]]] = {
    TODO: _waiting_for_me,
    MINE: _mine,
    PAGE_OF_WAITING: _waiting,
    PAGE_OF_HISTORY: _history,
}


async def page(ctx: ListenerContext, person: Person, what: str, query: Query) -> Card | None:
    """`None`: there is no such list. Raises Refused for people who may not see it."""
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
    lists = _lists(ctx, person)
    seen = await lists.latest_runs()
    shown = await without_secrets(ctx.db, seen[:PAGE])
    return run_list(shown, more=len(seen) > PAGE, cancellable=lists.cancellable(seen))


def _lists(ctx: ListenerContext, person: Person) -> PersonalLists:
    return PersonalLists(ctx.db, ctx.directory, person)


def _at(query: Query) -> Cursor:
    return Cursor.read(query.get("at"))


def _filter(team_id: str, query: Query) -> RequestFilter:
    """Raises ValueError for content that no list of Signoff writes."""
    return RequestFilter(
        agent=query.get("agent", ""),
        person=Person(team_id, query["user"]) if "user" in query else None,
        status=RequestStatus(query["status"]) if "status" in query else None,
        since=datetime.fromisoformat(query["since"]) if "since" in query else None,
    )


def _pages(what: str, query: Query, page: ListPage[Any]) -> Pages:
    kept = {name: value for name, value in query.items() if name != "at"}

    def to(there: Cursor | None) -> str | None:
        return None if there is None else page_value(what, **kept, at=str(there) or None)

    return Pages(back=to(page.back), forward=to(page.forward))
