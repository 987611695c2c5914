"""One request: its page, and the forms by which people decide, edit and withdraw it.

A form is judged as a click in Slack is; one that is refused comes back with what was typed and the reason.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from starlette.datastructures import FormData
from starlette.responses import Response

from agent import approvals
from agent.domain.errors import NotFound, Refused
from agent.domain.request import RequestView, Verdict
from signoff.errors import MalformedArguments
from slackbot import deciding, revising
from slackbot.cards import NEEDS_A_COMMENT, NEEDS_A_REASON, edit_errors, read_edit
from slackbot.web.inbox import edit_form
from slackbot.web.inbox.folder import Typed, opened, true_view
from slackbot.web.inbox.pages import PageRoute, moved, page
from slackbot.web.site import Site, site_of
from slackbot.web.visitors import Form, Signed, Visitor

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
    return await _show(site_of(request), who, request_id)


@router.get("/inbox/requests/{request_id}/now")
async def look_again(request: Request, request_id: str, who: Signed, shown: str = "") -> Response:
    """Its state alone, for a page that is open already; with the forms, when those it ``shown`` no longer fit."""
    folder = await opened(site_of(request), who, request_id)
    return page("now.html", visitor=who, folder=folder, names=folder.names, typed=Typed(), shown=shown)


@router.post("/inbox/requests/{request_id}/approve")
async def approve(request: Request, request_id: str, who: Signed, form: Form) -> Response:
    """Say yes to the revision that was shown."""
    site, comment = site_of(request), _text(form, "comment")
    view = await true_view(site, who, request_id)
    typed = {"comment": comment}
    if withheld := (await opened(site, who, request_id)).withheld:
        problem = f"Approve is withheld: {withheld}"  # whatever was sent: no such button was shown
        return await _back(site, who, request_id, Typed("approve", problem, values=typed), 409)
    if "approve" in view.reason_required and not comment:
        return await _back(site, who, request_id, Typed("approve", NEEDS_A_COMMENT, values=typed), 422)
    if view.risk.value in ("high", "critical") and form.get("sure") != "yes":
        problem = SURE.format(risk=view.risk.value)
        return await _back(site, who, request_id, Typed("approve", problem, values=typed), 422)
    return await _vote(site, who, view, form, Verdict.APPROVE, comment, Typed("approve", values=typed))


@router.post("/inbox/requests/{request_id}/reject")
async def reject(request: Request, request_id: str, who: Signed, form: Form) -> Response:
    """Say no, with a reason: one of the checkpoint's, own words, or both."""
    site, choice, own = site_of(request), _text(form, "choice"), _text(form, "own")
    view = await true_view(site, who, request_id)
    typed = {"choice": choice, "own": own}
    chosen = choice if choice in view.reject_reasons else ""
    reason = ": ".join(part for part in (chosen, own) if part)[:MAX_REASON]
    if "reject" in view.reason_required and not reason:
        return await _back(site, who, request_id, Typed("reject", NEEDS_A_REASON, values=typed), 422)
    return await _vote(site, who, view, form, Verdict.REJECT, reason, Typed("reject", values=typed))


@router.post("/inbox/requests/{request_id}/edit")
async def edit(request: Request, request_id: str, who: Signed, form: Form) -> Response:
    """Change the arguments: a new revision, which is then approved or rejected like any other."""
    site = site_of(request)
    view = await true_view(site, who, request_id)
    entered = edit_form.entered(form)
    typed = Typed("edit", values={key: value for key, value in form.items() if isinstance(value, str)})
    try:
        schema = revising.schema_for(site.services.registry, view)
    except NotFound:
        return await _back(site, who, request_id, _with(typed, NOT_SERVED), 409)
    arguments, errors = read_edit(edit_form.states(form, schema, view.action), schema, view.action)
    if errors:
        return await _back(site, who, request_id, _with(typed, "", errors), 422)
    try:
        async with asyncio.timeout(BUDGET):
            edited = await revising.save(
                site.services,
                site.slack.directory,
                who.person,
                view,
                _revision(form, view),
                arguments,
                path=PATH,
            )
    except MalformedArguments as wrong:
        blocks = {"blocks": [{"type": "input", "block_id": each} for each in entered]}
        at = edit_errors(blocks, schema, view.action, arguments, wrong.problem, wrong.path)
        return await _back(site, who, request_id, _with(typed, "" if at else str(wrong), at), 422)
    except Refused as refused:
        return await _back(site, who, request_id, _with(typed, refused.sentence), 409)
    except TimeoutError:
        return await _back(site, who, request_id, _with(typed, TOO_SLOW), 503)
    if not edited.changed:
        return await _back(site, who, request_id, _with(typed, NOTHING_CHANGED), 422)
    return moved(f"/inbox/requests/{request_id}")


@router.post("/inbox/requests/{request_id}/withdraw")
async def withdraw(request: Request, request_id: str, who: Signed, form: Form) -> Response:
    """The requester takes the question back."""
    site = site_of(request)
    view = await true_view(site, who, request_id)
    if who.person != view.requester:
        raise NotFound(request_id)
    if not await approvals.withdraw(site.db, view.id, who.person, _text(form, "why") or None):
        return await _back(site, who, request_id, Typed("withdraw", TOO_LATE), 409)
    return moved(f"/inbox/requests/{request_id}")


async def _vote(
    site: Site,
    who: Visitor,
    view: RequestView,
    form: FormData,
    verdict: Verdict,
    reason: str,
    typed: Typed,
) -> Response:
    try:
        async with asyncio.timeout(BUDGET):
            await deciding.cast(
                site.db,
                site.slack.directory,
                who.person,
                view.id,
                _revision(form, view),
                verdict,
                path=PATH,
                reason=reason or None,
            )
    except Refused as refused:
        return await _back(site, who, str(view.id), _with(typed, refused.sentence), 409)
    except TimeoutError:
        return await _back(site, who, str(view.id), _with(typed, TOO_SLOW), 503)
    return moved(f"/inbox/requests/{view.id}")


async def _back(site: Site, who: Visitor, request_id: str, typed: Typed, status: int) -> Response:
    return await _show(site, who, request_id, typed, status)


async def _show(
    site: Site, who: Visitor, request_id: str, typed: Typed | None = None, status: int = 200
) -> Response:
    folder = await opened(site, who, request_id)
    return page(
        "request.html",
        status,
        here="",
        visitor=who,
        folder=folder,
        names=folder.names,
        typed=typed or Typed(),
        shown=None,
    )


def _with(typed: Typed, problem: str, errors: dict[str, str] | None = None) -> Typed:
    return Typed(typed.form, problem, errors or {}, typed.values)


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
