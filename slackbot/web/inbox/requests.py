"""One request: its page, and the forms by which people decide, edit and withdraw it.

A form is judged as a click in Slack is; one that is refused comes back with what was typed and the reason.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from starlette.datastructures import FormData
from starlette.responses import Response

from agent.domain.errors import NotFound, Refused
from agent.domain.request import RequestView, Verdict
from agent.usecases import requests
from signoff.errors import MalformedArguments
from slackbot.cards import NEEDS_A_COMMENT, NEEDS_A_REASON, edit_errors, read_edit
from slackbot.reviewing import edits, votes
from slackbot.web.auth.visitors import Form, Signed, Visitor
from slackbot.web.http.context import WebContext, web_context
from slackbot.web.inbox import edit_form
from slackbot.web.inbox.rendering import PageRoute, page, redirect_after_form
from slackbot.web.inbox.request_page import EnteredForm, open_page, true_view

PATH = "page"
BUDGET = 2.6
"""Seconds for a decision, as for a click: identity 0.8, waiting for a connection 0.4, the vote 1.2."""

MAX_REASON = 3000

SURE = "Please tick that you are sure: this is a {risk}-risk action."
NOTHING_CHANGED = "Nothing is different, so everything stays as it was."
NOT_SERVED = "The tool of this request is not served by this process, so it cannot be edited here."
TOO_LATE = "This request is settled already; there is nothing left to withdraw."
TOO_SLOW = (
    "It took too long, so nothing is known to be recorded. It is safe to send it again: an answer that was recorded "
    "after all is counted once."
)

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/inbox/requests/{request_id}")
async def look(request: Request, request_id: str, who: Signed) -> Response:
    """Everything that is known of a request, and what the reader may do about it."""
    return await _show(web_context(request), who, request_id)


@router.get("/inbox/requests/{request_id}/now")
async def look_again(request: Request, request_id: str, who: Signed, shown: str = "") -> Response:
    """Its state alone, for a page that is open already; with the forms, when those it ``shown`` no longer fit."""
    request_page = await open_page(web_context(request), who, request_id)
    return page(
        "now.html",
        visitor=who,
        request_page=request_page,
        names=request_page.names,
        typed=EnteredForm(),
        shown=shown,
    )


@router.post("/inbox/requests/{request_id}/approve")
async def approve(request: Request, request_id: str, who: Signed, form: Form) -> Response:
    """Say yes to the revision that was shown."""
    ctx, comment = web_context(request), _text(form, "comment")
    view = await true_view(ctx, who, request_id)
    typed = {"comment": comment}
    if withheld := (await open_page(ctx, who, request_id)).withheld:
        problem = f"Approve is withheld: {withheld}"  # whatever was sent: no such button was shown
        return await _back(ctx, who, request_id, EnteredForm("approve", problem, values=typed), 409)
    if "approve" in view.reason_required and not comment:
        return await _back(ctx, who, request_id, EnteredForm("approve", NEEDS_A_COMMENT, values=typed), 422)
    if view.risk.value in ("high", "critical") and form.get("sure") != "yes":
        problem = SURE.format(risk=view.risk.value)
        return await _back(ctx, who, request_id, EnteredForm("approve", problem, values=typed), 422)
    return await _vote(ctx, who, view, form, Verdict.APPROVE, comment, EnteredForm("approve", values=typed))


@router.post("/inbox/requests/{request_id}/reject")
async def reject(request: Request, request_id: str, who: Signed, form: Form) -> Response:
    """Say no, with a reason: one of the checkpoint's, own words, or both."""
    ctx, choice, own = web_context(request), _text(form, "choice"), _text(form, "own")
    view = await true_view(ctx, who, request_id)
    typed = {"choice": choice, "own": own}
    chosen = choice if choice in view.reject_reasons else ""
    reason = ": ".join(part for part in (chosen, own) if part)[:MAX_REASON]
    if "reject" in view.reason_required and not reason:
        return await _back(ctx, who, request_id, EnteredForm("reject", NEEDS_A_REASON, values=typed), 422)
    return await _vote(ctx, who, view, form, Verdict.REJECT, reason, EnteredForm("reject", values=typed))


@router.post("/inbox/requests/{request_id}/edit")
async def edit(request: Request, request_id: str, who: Signed, form: Form) -> Response:
    """Change the arguments: a new revision, which is then approved or rejected like any other."""
    ctx = web_context(request)
    view = await true_view(ctx, who, request_id)
    entered = edit_form.read_form(form)
    typed = EnteredForm("edit", values={key: value for key, value in form.items() if isinstance(value, str)})
    try:
        schema = edits.schema_for(ctx.services.registry, view)
    except NotFound:
        return await _back(ctx, who, request_id, _with(typed, NOT_SERVED), 409)
    arguments, errors = read_edit(edit_form.states(form, schema, view.action), schema, view.action)
    if errors:
        return await _back(ctx, who, request_id, _with(typed, "", errors), 422)
    try:
        async with asyncio.timeout(BUDGET):
            edited = await edits.save(
                ctx.services,
                ctx.slack.directory,
                who.person,
                view,
                _revision(form, view),
                arguments,
                path=PATH,
            )
    except MalformedArguments as wrong:
        blocks = {"blocks": [{"type": "input", "block_id": each} for each in entered]}
        at = edit_errors(blocks, schema, view.action, arguments, wrong.problem, wrong.path)
        return await _back(ctx, who, request_id, _with(typed, "" if at else str(wrong), at), 422)
    except Refused as refused:
        return await _back(ctx, who, request_id, _with(typed, refused.sentence), 409)
    except TimeoutError:
        return await _back(ctx, who, request_id, _with(typed, TOO_SLOW), 503)
    if not edited.changed:
        return await _back(ctx, who, request_id, _with(typed, NOTHING_CHANGED), 422)
    return redirect_after_form(f"/inbox/requests/{request_id}")


@router.post("/inbox/requests/{request_id}/withdraw")
async def withdraw(request: Request, request_id: str, who: Signed, form: Form) -> Response:
    """The requester takes the question back."""
    ctx = web_context(request)
    view = await true_view(ctx, who, request_id)
    if who.person != view.requester:
        raise NotFound(request_id)
    if not await requests.withdraw(ctx.db, view.id, who.person, _text(form, "why") or None):
        return await _back(ctx, who, request_id, EnteredForm("withdraw", TOO_LATE), 409)
    return redirect_after_form(f"/inbox/requests/{request_id}")


async def _vote(
    ctx: WebContext,
    who: Visitor,
    view: RequestView,
    form: FormData,
    verdict: Verdict,
    reason: str,
    typed: EnteredForm,
) -> Response:
    try:
        async with asyncio.timeout(BUDGET):
            await votes.cast_vote(
                ctx.db,
                ctx.slack.directory,
                who.person,
                view.id,
                _revision(form, view),
                verdict,
                path=PATH,
                reason=reason or None,
            )
    except Refused as refused:
        return await _back(ctx, who, str(view.id), _with(typed, refused.sentence), 409)
    except TimeoutError:
        return await _back(ctx, who, str(view.id), _with(typed, TOO_SLOW), 503)
    return redirect_after_form(f"/inbox/requests/{view.id}")


async def _back(ctx: WebContext, who: Visitor, request_id: str, typed: EnteredForm, status: int) -> Response:
    return await _show(ctx, who, request_id, typed, status)


async def _show(
    ctx: WebContext, who: Visitor, request_id: str, typed: EnteredForm | None = None, status: int = 200
) -> Response:
    request_page = await open_page(ctx, who, request_id)
    return page(
        "request.html",
        status,
        here="",
        visitor=who,
        request_page=request_page,
        names=request_page.names,
        typed=typed or EnteredForm(),
        shown=None,
    )


def _with(typed: EnteredForm, problem: str, errors: dict[str, str] | None = None) -> EnteredForm:
    return EnteredForm(typed.form, problem, errors or {}, typed.values)


def _revision(form: FormData, view: RequestView) -> int:
    """The revision that the form was drawn for; without one it fits none."""
    given: Any = form.get("revision")
    return (
        int(given) if isinstance(given, str) and given.isdecimal() and len(given) < 10 else view.revision + 1
    )


def _text(form: FormData, name: str) -> str:
    """What was typed, with lines that end as ours do."""
    given = form.get(name)
    return given.replace("\r\n", "\n").strip()[:MAX_REASON] if isinstance(given, str) else ""
