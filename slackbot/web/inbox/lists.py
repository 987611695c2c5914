"""The lists of the inbox page: what waits, and what was decided."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from agent.domain.errors import Refused
from agent.domain.request import RequestStatus
from agent.domain.request_list import (
    Count,
    HistoryLine,
    RequestFilter,
    RequestKind,
    RequestLine,
    RequestOrder,
)
from agent.domain.request_view import RequestView
from agent.domain.short_ids import parse_id_prefix
from agent.store import views
from signoff.values import Person
from slackbot.cards import Names, parse_id
from slackbot.cards.cursor import Cursor
from slackbot.masking import clean_view
from slackbot.masking.search_words import search_words
from slackbot.reviewing.listing import MAX_EXACT, PersonalLists
from slackbot.reviewing.visibility import visible_request
from slackbot.web.auth.visitors import Signed, Visitor
from slackbot.web.http.context import WebContext, web_context
from slackbot.web.http.problems import retry_later
from slackbot.web.inbox.filters import FilterOffer, ListQuery
from slackbot.web.inbox.history_file import history_file
from slackbot.web.inbox.rendering import HEADERS, PageRoute, page, redirect_after_form
from slackbot.web.inbox.row_forms import row_forms, together

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PAGE = 25
MAX_LATEST = 5

At = Annotated[str, Query(max_length=1000)]
Word = Annotated[str, Query(max_length=200)]

LONGEST_COUNT = 5.0
"""Seconds for an exact count, including the wait for an earlier one."""

TOO_MANY = "There are too many to count now."


class CountedList(StrEnum):
    """A list of the inbox whose requests can be counted exactly, up to `MAX_EXACT`."""

    MINE = "mine"
    OTHERS = "others"
    HISTORY = "history"


_ID = re.compile(r"[0-9a-fA-F]{8}[0-9a-fA-F-]{0,28}\Z", re.ASCII)


@router.get("/")
async def start() -> Response:
    """Redirect the root address to the inbox."""
    return redirect_after_form("/inbox")


@router.get("/inbox")
async def inbox(request: Request, who: Signed, at: At = "", done: Word = "") -> Response:
    """``done``: just answered from its row."""
    ctx, query = web_context(request), ListQuery.of_waiting(request)
    answered, offered, waiting = await asyncio.gather(
        _answered(ctx, who, done),
        _offered(ctx, who, RequestKind.WAITING, query),
        _waiting(ctx, who, query, at),
    )
    return page(
        "inbox.html",
        here="inbox",
        visitor=who,
        answered=answered,
        refresh=query.address("/inbox/waiting", at=at),
        offered=offered,
        **waiting,
    )


@router.get("/inbox/waiting")
async def waiting(request: Request, who: Signed, at: At = "") -> Response:
    """To refresh an open page."""
    return page(
        "waiting.html",
        visitor=who,
        **await _waiting(web_context(request), who, ListQuery.of_waiting(request), at),
    )


@router.get("/inbox/history")
async def history(request: Request, who: Signed, at: At = "") -> Response:
    """Decided requests (or open ones, by filter); a search covers both."""
    ctx, query = web_context(request), ListQuery.of_history(request)
    if len(alike := await _by_id(ctx, who, query)) == 1:
        return redirect_after_form(f"/inbox/requests/{alike[0]}")
    wanted, kind = await _wanted(ctx, who, query, alike), query.kind()
    order, lists = _order(query, kind), _lists(ctx, who)
    list_page, count = await asyncio.gather(
        lists.found(kind, wanted, Cursor.read(at), PAGE, order), lists.count(kind, wanted)
    )
    return page(
        "history.html",
        here="history",
        visitor=who,
        list_page=list_page,
        count=count,
        turns=query.turns("/inbox/history", list_page),
        query=query,
        by_id=wanted.ids is not None,
        offered=await _offered(ctx, who, kind, query, _people(list_page.lines)),
        **await _named(ctx, who, list_page.lines, query.asked["voter"]),
    )


@router.get("/inbox/history.csv")
async def download(request: Request, who: Signed) -> Response:
    """The list of the history, all pages of it. What the page would ignore in the address leads back to the page."""
    ctx, query = web_context(request), ListQuery.of_history(request)
    alike = await _by_id(ctx, who, query)
    wanted, kind = await _wanted(ctx, who, query, alike), query.kind()
    order = _order(query, kind)
    if query.unclear:
        return redirect_after_form(query.address("/inbox/history"))
    name = {"Content-Disposition": 'attachment; filename="history.csv"'}
    rows = history_file(_lists(ctx, who), kind, wanted, order)
    return StreamingResponse(rows, headers=HEADERS | name, media_type="text/csv; charset=utf-8")


@router.get("/inbox/count/{name}")
async def count(request: Request, who: Signed, name: CountedList) -> Response:
    """The exact length, up to `MAX_EXACT`, of a list that the page counted in part. 503 after a few seconds."""
    ctx = web_context(request)
    try:
        async with asyncio.timeout(LONGEST_COUNT), ctx.exact_count:
            found = await _counted(ctx, who, request, name)
    except TimeoutError:
        raise retry_later("count-under-way", "Too many to count now", TOO_MANY, 60) from None
    return Response(f"{found}", headers=HEADERS, media_type="text/plain")


async def _counted(ctx: WebContext, who: Visitor, request: Request, name: CountedList) -> Count:
    lists = _lists(ctx, who)
    if name is CountedList.HISTORY:
        query = ListQuery.of_history(request)
        alike = await _by_id(ctx, who, query)
        return await lists.count(query.kind(), await _wanted(ctx, who, query, alike), MAX_EXACT)
    wanted = await _by_names(ctx, who, RequestKind.WAITING, ListQuery.of_waiting(request).read(ctx))
    count = lists.count_for_me if name is CountedList.MINE else lists.count_for_others
    return await count(wanted, MAX_EXACT)


async def _waiting(ctx: WebContext, who: Visitor, query: ListQuery, at: str) -> dict[str, Any]:
    lists = _lists(ctx, who)
    wanted = await _by_names(ctx, who, RequestKind.WAITING, query.read(ctx))
    order = query.order(RequestOrder.DEADLINE)
    (mine, others), lately = await asyncio.gather(
        lists.waiting_for_others(Cursor.read(at), PAGE, wanted, order),
        lists.latest_decided(0 if query.narrows else MAX_LATEST),
    )
    lines = [*mine.lines, *others.lines, *lately]
    forms = await row_forms(ctx.db, mine.lines)
    return {
        "mine": mine,
        "others": others,
        "lately": lately,
        "turns": query.turns("/inbox", mine),
        "every": query.address("/inbox/history", status="waiting"),
        "forms": forms,
        "together": together(forms),
        "back": query.address("/inbox", at=at),
        "query": query,
        **await _named(ctx, who, lines),
    }


async def _answered(ctx: WebContext, who: Visitor, done: str) -> RequestView | None:
    """The just-answered request, unless it waits and the visitor has not voted."""
    wanted = parse_id(done) if done else None
    if wanted is None:
        return None
    try:
        view = await visible_request(ctx.db, ctx.slack.directory, who.person, wanted)
    except Refused:
        return None
    voted = any(vote.person == who.person for vote in view.votes)
    return await clean_view(view) if voted or view.status is not RequestStatus.WAITING else None


async def _by_id(ctx: WebContext, who: Visitor, query: ListQuery) -> list[UUID]:
    """At most two requests whose id begins like the words; the only one if the visitor may see it.

    Else its existence is not revealed.
    """
    text = query.asked["q"].strip()
    if not _ID.match(text):
        return []
    found = await ctx.db.read(views.requests_like, team_id=ctx.slack.team_id, id_prefix=text)
    if len(found) != 1:
        return found
    try:
        await visible_request(ctx.db, ctx.slack.directory, who.person, found[0])
    except Refused:
        return []
    return found


async def _wanted(ctx: WebContext, who: Visitor, query: ListQuery, alike: Sequence[UUID]) -> RequestFilter:
    """Of requests whose id begins like the words, the list is of these."""
    wanted = query.read(ctx)
    if alike:
        return replace(wanted, words=(), ids=parse_id_prefix(query.asked["q"]))
    return await _by_names(ctx, who, query.kind(), wanted)


async def _by_names(ctx: WebContext, who: Visitor, kind: RequestKind, wanted: RequestFilter) -> RequestFilter:
    """Words may be handles or real names of people who asked for or decided what the visitor may see."""
    if not wanted.words:
        return wanted
    choices = await _lists(ctx, who).choices(kind)
    ids = {*choices.requesters, *choices.deciders, who.person.user_id}
    names = await ctx.slack.directory.names(ids)
    known = [(part, each) for each in ids for part in search_words(names.in_full(each))]
    return replace(
        wanted,
        named=tuple(
            (word, user_id) for word in wanted.words for part, user_id in known if part.startswith(word)
        ),
    )


def _order(query: ListQuery, kind: RequestKind) -> RequestOrder:
    return query.order(RequestOrder.DEADLINE if kind is RequestKind.WAITING else RequestOrder.NEWEST)


def _lists(ctx: WebContext, who: Visitor) -> PersonalLists:
    return PersonalLists(ctx.db, ctx.slack.directory, who.person)


async def _offered(
    ctx: WebContext, who: Visitor, kind: RequestKind, query: ListQuery, shown: Collection[str] | None = None
) -> FilterOffer:
    choices, asked = await _lists(ctx, who).choices(kind), query.asked
    requesters = {*choices.requesters, asked["requester"]} - {""}
    known = {*requesters, *choices.deciders, *(shown or ()), asked["person"], asked["decider"]} - {""}
    people = set() if shown is None else known
    names = await ctx.slack.directory.names(requesters | people)
    # Channel names are shown only if the visitor sees requests there; a selected channel stays an id.
    channel_names = await ctx.slack.directory.channel_names(choices.channels)
    channels = {*choices.channels, asked["channel"]} - {""}

    def by_name(ids: Collection[str]) -> list[tuple[str, str]]:
        return sorted(((each, names.of(each)) for each in ids), key=lambda each: each[1].casefold())

    return FilterOffer(
        agents=sorted({*choices.agents, asked["agent"]} - {""}),
        rules=sorted({*choices.checkpoints, asked["rule"]} - {""}),
        requesters=by_name(requesters),
        people=by_name(people),
        channels=sorted((each, channel_names.get(each, each)) for each in channels),
    )


def _people(lines: Iterable[RequestLine]) -> set[str]:
    return {each.user_id for line in lines for each in (line.behalf.requester, *_deciders(line)) if each}


def _deciders(line: RequestLine) -> tuple[Person, ...]:
    return line.deciders if isinstance(line, HistoryLine) else ()


async def _named(ctx: WebContext, who: Visitor, lines: Sequence[RequestLine], *others: str) -> dict[str, Any]:
    ids = {who.person.user_id, *_people(lines), *filter(None, others)} | {
        each for line in lines for each in line.approvers
    }
    directory = ctx.slack.directory
    names: Names = await directory.names(ids)
    channels = await directory.channel_names(line.channel_id for line in lines if line.channel_id)
    return {"names": names, "channels": channels, "me": who.person}
