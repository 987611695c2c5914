"""Several requests decided in one form of the inbox page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode
from uuid import UUID, uuid4

from fastapi import APIRouter, Request
from starlette.datastructures import FormData
from starlette.responses import Response

from agent.domain.errors import Refusal, Refused
from agent.domain.request import Verdict
from agent.domain.verdicts import ON_APPROVAL, VERDICTS
from slackbot.cards import OWN_WORDS_EXCLUDE, parse_id
from slackbot.cards.together_form import (
    MOST,
    NO_VERDICT,
    NOTHING_TICKED,
    ONLY_REJECTS,
    CarriedRow,
    LeftOut,
    TogetherForm,
    claim_of,
    read_claim,
    reason_required,
    summary,
)
from slackbot.reviewing.together import FormDecision, Query, decide, open_form
from slackbot.web.auth.visitors import Form, Signed, Visitor
from slackbot.web.http.context import WebContext, web_context
from slackbot.web.inbox.rendering import PageRoute, page
from slackbot.web.inbox.request_page import RequestContent
from slackbot.web.inbox.requests import MAX_REASON, entered_text

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PATH = "page_together"

_ASKED = ("agent", "key", "group", "checkpoint", "tool", "after")


@router.get("/inbox/together")
async def look(request: Request, who: Signed) -> Response:
    """The form for the chosen requests, or without a choice for the first of a kind.

    ``among``: what the list showed, if it was not the beginning of everything.
    """
    given = request.query_params
    query = {name: given[name][:200] for name in _ASKED if given.get(name)}
    chosen = _ids(given.getlist("id")) or _ids(given.getlist("among"))
    return await _show(web_context(request), who, query, chosen)


@router.post("/inbox/together")
async def send(request: Request, who: Signed, form: Form) -> Response:
    """Cast a vote on each ticked request, within a click's time."""
    ctx = web_context(request)
    rows, verdict = _rows(form), _verdict(form)
    entered = {name: entered_text(form, name) for name in ("verdict", "choice", "own", "next")}
    if verdict is None or not rows or (entered["choice"] and verdict is not Verdict.REJECT):
        problem = NOTHING_TICKED if not rows else NO_VERDICT if verdict is None else ONLY_REJECTS
        return await _again(ctx, who, form, entered, problem)
    reason = ": ".join(filter(None, (entered["choice"], entered["own"])))[:MAX_REASON] or None
    try:
        decision = FormDecision(who.person, parse_id(form.get("form")) or uuid4(), verdict, reason, PATH)
        outcomes = await decide(ctx.votes, ctx.slack.directory, decision, rows)
    except Refused as refused:
        missing = refused.code is Refusal.REASON_REQUIRED
        said = VERDICTS[verdict].reason_missing if missing else refused.sentence
        return await _again(ctx, who, form, entered, said)
    return page(
        "together.html",
        here="inbox",
        visitor=who,
        names=await ctx.slack.directory.names([who.person.user_id]),
        outcomes=outcomes,
        summary=summary(outcomes),
        problems=[each for each in outcomes if each.problem is not None],
        next=_next(parse_qsl(entered["next"])),
    )


async def _again(
    ctx: WebContext, who: Visitor, form: FormData, entered: Mapping[str, str], problem: str
) -> Response:
    ticked = [each for each in form.getlist("row") if isinstance(each, str)]
    return await _show(ctx, who, {}, _ids(form.getlist("id")), entered, problem, ticked)


async def _show(
    ctx: WebContext,
    who: Visitor,
    query: Query,
    chosen: Sequence[UUID],
    entered: Mapping[str, str] | None = None,
    problem: str = "",
    ticked: Sequence[str] = (),
) -> Response:
    try:
        form, left = await open_form(ctx.db, ctx.slack.directory, who.person, query, chosen)
    except ValueError:
        raise Refused(Refusal.UNKNOWN_REQUEST) from None
    rows = form.rows if form else ()
    people = {who.person.user_id, *(view.behalf.requester.user_id for view in rows if view.behalf.requester)}
    return page(
        "together.html",
        422 if problem else 200,
        here="inbox",
        visitor=who,
        outcomes=(),
        form=form,
        left=left,
        rows=[RequestContent(view) for view in rows],
        claims=[claim_of(view) for view in rows],
        names=await ctx.slack.directory.names(people),
        next=_next(parse_qsl(entered["next"]) if entered else _rest(form, left, chosen)),
        own_words_exclude=_own_words_exclude(form, who),
        required=[VERDICTS[verdict].reason_missing for verdict in reason_required(form)] if form else [],
        entered=entered or {},
        problem=problem,
        ticked=ticked,
    )


def _own_words_exclude(form: TogetherForm | None, who: Visitor) -> str:
    excludes = form is not None and any(view.own_words_exclude(who.person) for view in form.rows)
    return OWN_WORDS_EXCLUDE if excludes else ""


def _ids(given: Sequence[Any]) -> list[UUID]:
    return [found for each in given if (found := parse_id(each)) is not None]


def _rows(form: FormData) -> list[CarriedRow]:
    """The ticked rows; nothing if any of them is none of a form's, or there are too many."""
    given = [each for each in form.getlist("row") if isinstance(each, str)]
    try:
        rows = [read_claim(each) for each in dict.fromkeys(given)]
    except ValueError:
        return []
    different = len({row.value.request_id for row in rows}) == len(rows)
    return rows if different and len(rows) <= MOST else []


def _verdict(form: FormData) -> Verdict | None:
    given = form.get("verdict")
    return Verdict(given) if given in set(ON_APPROVAL) else None


def _rest(
    form: TogetherForm | None, left: Sequence[LeftOut], chosen: Sequence[UUID]
) -> Iterable[tuple[str, str]]:
    """What the next form is asked for: the chosen requests that this one has no room for, or the query's next ones."""
    if form is None or not chosen:
        return (form.query or {}).items() if form else ()
    known = {each.id for each in form.rows} | {each.view.id for each in left}
    return (("id", str(each)) for each in chosen if each not in known)


def _next(asked: Iterable[tuple[str, str]]) -> str:
    return urlencode([(name, value) for name, value in asked if name in (*_ASKED, "id")])
