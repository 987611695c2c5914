"""The lists: what waits, and what was decided, with filters and search."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from agent.domain.errors import Refused
from agent.domain.request import HistoryLine, RequestLine, RequestStatus, RequestView
from agent.store import views
from signoff.values import Person
from slackbot.cards import Names, parse_id
from slackbot.cards.cursor import Cursor
from slackbot.masking import clean_view
from slackbot.reviewing.listing import ListFilter, ListPage, PersonalLists
from slackbot.reviewing.visibility import visible_request
from slackbot.web.auth.visitors import Signed, Visitor
from slackbot.web.http.context import WebContext, web_context
from slackbot.web.inbox.rendering import PageRoute, page, redirect_after_form
from slackbot.web.inbox.row_forms import row_forms

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PAGE = 25
LATELY = 5

At = Annotated[str, Query(max_length=1000)]
Word = Annotated[str, Query(max_length=200)]

_ID = re.compile(r"[0-9a-fA-F]{8}[0-9a-fA-F-]{0,28}\Z", re.ASCII)
_USER = re.compile(r"[UW][A-Z0-9]{1,30}\Z", re.ASCII)


@router.get("/")
async def start() -> Response:
    """The address without a path leads to the inbox."""
    return redirect_after_form("/inbox")


@router.get("/inbox")
async def inbox(request: Request, who: Signed, at: At = "", done: Word = "") -> Response:
    """What waits for the visitor, what waits for others, and the latest outcomes.

    ``done`` is the request that the visitor has just answered from its row.
    """
    ctx = web_context(request)
    answered = await _answered(ctx, who, done)
    return page("inbox.html", here="inbox", visitor=who, answered=answered, **await _waiting(ctx, who, at))


@router.get("/inbox/waiting")
async def waiting(request: Request, who: Signed, at: At = "") -> Response:
    """The lists of the inbox alone, for a page that is open already."""
    return page("waiting.html", visitor=who, **await _waiting(web_context(request), who, at))


@router.get("/inbox/history")
async def history(
    request: Request,
    who: Signed,
    q: Word = "",
    status: Word = "",
    agent: Word = "",
    person: Word = "",
    since: Word = "",
    at: At = "",
) -> Response:
    """What was decided (or waits, by filter), newest first, a page at a time."""
    ctx = web_context(request)
    if _ID.match(q.strip()) and (found := await _by_id(ctx, who, q.strip())):
        return redirect_after_form(f"/inbox/requests/{found}")
    wanted, unclear = _wanted(ctx.slack.team_id, q, status, agent, person, since)
    lists = _lists(ctx, who)
    search = lists.waiting if wanted.status is RequestStatus.WAITING else lists.decided
    list_page: ListPage[Any] = await search(wanted, Cursor.read(at), PAGE)
    chosen = wanted.person.user_id if wanted.person else ""
    kept = {"q": q, "status": status, "agent": agent, "person": person, "since": since}
    return page(
        "history.html",
        here="history",
        visitor=who,
        list_page=list_page,
        turns=_turns("/inbox/history", kept, list_page),
        asked=kept,
        unclear=unclear,
        agents=sorted(_agents(ctx, list_page.lines, wanted.agent)),
        people=sorted(_people(list_page.lines, chosen)),
        **await _named(ctx, who, list_page.lines, [chosen] if chosen else []),
    )


async def _waiting(ctx: WebContext, who: Visitor, at: str) -> dict[str, Any]:
    lists = _lists(ctx, who)
    mine, others = await lists.waiting_for_others(Cursor.read(at), PAGE)
    lately = await lists.latest_decided(LATELY)
    return {
        "mine": mine,
        "others": others,
        "lately": lately,
        "at": at,
        "turns": _turns("/inbox", {}, mine),
        "forms": await row_forms(ctx.db, mine.lines),
        "back": f"/inbox?{urlencode({'at': at})}" if at else "/inbox",
        **await _named(ctx, who, [*mine.lines, *others.lines, *lately]),
    }


async def _answered(ctx: WebContext, who: Visitor, done: str) -> RequestView | None:
    wanted = parse_id(done) if done else None
    try:
        return (
            await clean_view(await visible_request(ctx.db, ctx.slack.directory, who.person, wanted))
            if wanted
            else None
        )
    except Refused:
        return None


async def _by_id(ctx: WebContext, who: Visitor, text: str) -> str | None:
    """The one request whose id begins so, if the visitor may see it; of others they do not learn that there are any."""
    async with ctx.db.connection() as connection:
        found = await views.requests_like(connection, team_id=ctx.slack.team_id, id_prefix=text)
    if len(found) != 1:
        return None
    try:
        return str((await visible_request(ctx.db, ctx.slack.directory, who.person, found[0])).id)
    except Refused:
        return None


def _lists(ctx: WebContext, who: Visitor) -> PersonalLists:
    return PersonalLists(ctx.db, ctx.slack.directory, who.person)


def _wanted(team_id: str, q: str, status: str, agent: str, person: str, since: str) -> tuple[ListFilter, str]:
    """The filters, and what of them is not understood and therefore left out."""
    problems = []
    known = status in set(RequestStatus)
    if status and not known:
        problems.append(f"There is no status “{status}”.")
    if person and not _USER.match(person):
        problems.append("A person is named by their Slack id.")
        person = ""
    try:
        day = datetime.fromisoformat(since) if since else None
    except ValueError:
        day = None
        problems.append(f"“{since}” is no date like 2026-11-01.")
    earliest = day if day is None or day.tzinfo else day.replace(tzinfo=UTC)
    wanted = ListFilter(
        RequestStatus(status) if known else None,
        agent,
        Person(team_id, person) if person else None,
        earliest,
        q,
    )
    return wanted, " ".join(problems)


def _turns(path: str, kept: dict[str, str], list_page: ListPage[Any]) -> dict[str, str | None]:
    """The addresses of the pages before and behind."""

    def to(cursor: Cursor | None) -> str | None:
        if cursor is None:
            return None
        query = {name: value for name, value in {**kept, "at": str(cursor)}.items() if value}
        return f"{path}?{urlencode(query)}" if query else path

    return {"back": to(list_page.back), "forward": to(list_page.forward)}


def _agents(ctx: WebContext, lines: Iterable[RequestLine], chosen: str) -> set[str]:
    return ({agent.name for agent in ctx.services.registry} | {line.agent for line in lines} | {chosen}) - {
        ""
    }


def _people(lines: Iterable[RequestLine], chosen: str) -> set[str]:
    named = {each.user_id for line in lines for each in (line.requester, _decider(line)) if each}
    return (named | {chosen}) - {""}


def _decider(line: RequestLine) -> Any:
    return line.decided_by if isinstance(line, HistoryLine) else None


async def _named(
    ctx: WebContext, who: Visitor, lines: Sequence[RequestLine], more: Sequence[str] = ()
) -> dict[str, Any]:
    """What the people, groups and channels in these lines are called."""
    ids = {who.person.user_id, *more, *_people(lines, "")}
    ids |= {each for line in lines for each in line.approvers}
    directory = ctx.slack.directory
    names: Names = await directory.names(ids)
    channels = await directory.channel_names(line.channel_id for line in lines if line.channel_id)
    return {"names": names, "channels": channels, "me": who.person}
