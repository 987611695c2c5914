"""Lists as answers to commands and in modals, and the buttons below them.

Word and query travel in the buttons, as claims; each page looks up current rights.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from slack_bolt.async_app import AsyncAck, AsyncApp

from agent.domain.errors import Refusal, Refused
from agent.domain.request import RequestStatus
from agent.domain.request_list import RequestFilter, RequestKind, RequestLine, RequestOrder
from agent.domain.short_ids import parse_id_prefix
from agent.store import views
from signoff.values import Person
from slackbot.cards import (
    ACTION_LIST,
    ACTION_PAGE,
    ACTION_PAGE_BACK,
    PAGE_OF_ANSWER,
    PAGE_OF_DETAILS,
    PAGE_OF_HISTORY,
    PAGE_OF_HOME,
    PAGE_OF_WAITING,
    Card,
    Pages,
    history_list,
    list_modal,
    notice_modal,
    page_value,
    parse_id,
    parse_page_value,
    request_list,
    run_list,
    skeleton_modal,
)
from slackbot.cards.cursor import Cursor
from slackbot.cards.group_digest import PAGE_OF_GROUP
from slackbot.cards.together_form import together_row
from slackbot.masking import clean_view
from slackbot.reviewing.listing import ListPage, PersonalLists, without_secrets
from slackbot.slack.listeners import answers, details
from slackbot.slack.listeners.buttons import person_of
from slackbot.slack.listeners.catch_all import OLD_BUTTON
from slackbot.slack.listeners.context import ListenerContext
from slackbot.slack.listeners.history_query import ME
from slackbot.slack.listeners.modals import draw, in_time, show, tell

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
        together=await _together(ctx, page.lines, {}),
    )


async def _together(ctx: ListenerContext, lines: Sequence[RequestLine], query: Query) -> list[dict[str, Any]]:
    found = await ctx.db.read(views.request_views, [line.id for line in lines])
    asked = {name: value for name, value in query.items() if name == "group"}
    return together_row([await clean_view(view) for view in found], asked)


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
    page = await _lists(ctx, person).found(
        RequestKind.WAITING, wanted, _at(query), PAGE, RequestOrder.DEADLINE
    )
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


async def _group(ctx: ListenerContext, person: Person, query: Query) -> Card:
    """What still waits behind a group's message."""
    wanted = RequestFilter(group=query.get("group", "") or "group:")
    page = await _lists(ctx, person).found(RequestKind.WAITING, wanted, _at(query), PAGE, RequestOrder.ASKED)
    return request_list(
        page.lines,
        heading="Waiting, of one group",
        empty="Nothing of this group waits any more.",
        pages=_pages(PAGE_OF_GROUP, query, page),
        together=await _together(ctx, page.lines, query),
    )


async def _history(ctx: ListenerContext, person: Person, query: Query) -> Card:
    wanted = _filter(ctx.directory.own_team_id, person, query)
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
    PAGE_OF_GROUP: _group,
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
    """Return the answer that lists the latest runs a person may see, masked, with Cancel for their own."""
    lists = _lists(ctx, person)
    seen = await lists.latest_runs()
    shown = await without_secrets(ctx.db, seen[:PAGE])
    return run_list(shown, more=len(seen) > PAGE, cancellable=lists.cancellable(seen))


def _lists(ctx: ListenerContext, person: Person) -> PersonalLists:
    return PersonalLists(ctx.db, ctx.directory, person)


def _at(query: Query) -> Cursor:
    return Cursor.read(query.get("at"))


def _filter(team_id: str, reader: Person, query: Query) -> RequestFilter:
    """Raises ValueError for content that no list of Signoff writes."""

    def person(name: str) -> Person | None:
        given = query.get(name)
        return None if given is None else Person(team_id, reader.user_id if given == ME else given)

    ids = parse_id_prefix(query["id"]) if "id" in query else None
    if "id" in query and ids is None:
        raise ValueError(query["id"])
    return RequestFilter(
        agent=query.get("agent", ""),
        requester=person("requester"),
        person=person("user"),
        decider=person("decider"),
        ids=ids,
        status=RequestStatus(query["status"]) if "status" in query else None,
        since=datetime.fromisoformat(query["since"]) if "since" in query else None,
        until=datetime.fromisoformat(query["until"]) if "until" in query else None,
    )


def _pages(what: str, query: Query, page: ListPage[Any]) -> Pages:
    kept = {name: value for name, value in query.items() if name != "at"}

    def to(there: Cursor | None) -> str | None:
        return None if there is None else page_value(what, **kept, at=str(there) or None)

    return Pages(back=to(page.back), forward=to(page.forward))


HEADING = "Requests"
NOT_OPENED = "Slack did not open the list in time. Please press the button again."
FAILED = "The list could not be looked up. Please try again."


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    """Register the buttons that open a list in a modal, and those that turn a list's pages."""

    async def turned(ack: AsyncAck, body: dict[str, Any]) -> None:
        await ack()
        read = parse_page_value(body["actions"][0].get("value"))
        if read is None or not _turn(ctx, body, *read):
            tell(ctx, body, OLD_BUTTON)

    async def opened(ack: AsyncAck, body: dict[str, Any]) -> None:
        read = parse_page_value(body["actions"][0].get("value"))
        refusal: str | None = OLD_BUTTON
        if read is not None and read[0] in LISTS:
            draw_page = partial(in_modal, ctx, body, *read)
            refusal = await show(ctx, body, skeleton_modal(HEADING), NOT_OPENED, draw_page)
        await ack()
        if refusal:
            tell(ctx, body, refusal)

    app.action(ACTION_PAGE)(turned)
    app.action(ACTION_PAGE_BACK)(turned)
    app.action(ACTION_LIST)(opened)


def _turn(ctx: ListenerContext, body: dict[str, Any], what: str, query: dict[str, str]) -> bool:
    """False: it belongs to another list."""
    view = body.get("view") or {}
    match what, view.get("type"):
        case _, "modal" if what == PAGE_OF_DETAILS:
            request_id, page = parse_id(query.get("request")), query.get("page", "")
            if request_id is None or not page.isdecimal():
                return False
            ctx.background.start(details.fill(ctx, view["id"], person_of(body), request_id, int(page[:6])))
        case _, "modal" if what == PAGE_OF_ANSWER:
            draw_answer = answers.drawing(ctx, body, query)
            if draw_answer is None:
                return False
            ctx.background.start(draw_answer(view["id"]))
        case _, "home" if what == PAGE_OF_HOME:
            waiting, mine = (Cursor.read(query.get(name)) for name in ("waiting", "mine"))
            ctx.homes.turn_to(person_of(body), waiting, mine)
        case _, "modal" if what in LISTS:
            ctx.background.start(in_modal(ctx, body, what, query, view["id"]))
        case _, None if what in LISTS:
            ctx.background.start(_in_answer(ctx, body, what, query))
        case _:
            return False
    return True


async def in_modal(
    ctx: ListenerContext, body: dict[str, Any], what: str, query: dict[str, str], view_id: str
) -> None:
    """Draw a list, or why there is none, into an open modal."""
    card = await _page(ctx, body, what, query)
    shown = notice_modal(HEADING, card) if isinstance(card, str) else list_modal(HEADING, [card])
    await draw(ctx, view_id, shown)


async def _in_answer(ctx: ListenerContext, body: dict[str, Any], what: str, query: dict[str, str]) -> None:
    """Replace an ephemeral answer, which only a `response_url` can; every click brings a new one (5 uses, 30 min)."""
    card = await _page(ctx, body, what, query)
    if isinstance(card, str):
        tell(ctx, body, card)
    else:
        await ctx.client.respond(
            body["response_url"],
            text=card.text,
            blocks=card.blocks,
            response_type="ephemeral",
            replace_original=True,
        )


async def _page(ctx: ListenerContext, body: dict[str, Any], what: str, query: dict[str, str]) -> Card | str:
    return await in_time(page(ctx, person_of(body), what, query), FAILED) or OLD_BUTTON
