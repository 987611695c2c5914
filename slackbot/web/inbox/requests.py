"""A request's page and forms, judged like clicks in Slack. A refused form is shown again with its input."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request
from starlette.datastructures import FormData
from starlette.responses import Response

from agent.domain.answer_entries import AnswerEntries
from agent.domain.answers import AnswerForm, UnfitAnswer
from agent.domain.errors import NotFound, Refusal, Refused, sentence
from agent.domain.request import Verdict
from agent.domain.request_view import RequestView
from agent.domain.verdicts import ON_APPROVAL, VERDICTS
from agent.runtime.judging.edits import schema_of
from agent.usecases import requests
from signoff.errors import MalformedArguments
from signoff.values import Action, Risk
from slackbot.cards import argument_fields, edit_errors, read_edit, unreadable
from slackbot.cards.form import FIELD_INPUT
from slackbot.cards.schema import InputKind
from slackbot.masking import clean_view
from slackbot.reviewing import edits
from slackbot.reviewing.answers import read_answer
from slackbot.reviewing.votes import BUDGET, OUTCOME_UNKNOWN, NewVote, cast_vote
from slackbot.web.auth.visitors import Form, Signed, Visitor
from slackbot.web.http.context import WebContext, web_context
from slackbot.web.inbox.rendering import PageRoute, local_address, page, redirect_after_form
from slackbot.web.inbox.request_page import EnteredForm, open_page, true_view

PREFIX = "signoff:edit:"

PATH = "page"
ROW = "page_row"
MAX_REASON = 3000

SURE = "Please tick that you are sure: this is a {risk}-risk action."
CHECK = "The answer was not recorded yet. Please look at what is marked."
TOO_LATE = "This request already has an outcome; there is nothing to withdraw."

router = APIRouter(route_class=PageRoute, include_in_schema=False)


def read_form(form: FormData) -> list[str]:
    """The ids of the inputs. An unticked box sends nothing, so each input has a marker."""
    return [each for each in form.getlist("there") if isinstance(each, str) and each.startswith(PREFIX)]


def states(form: FormData, schema: Mapping[str, Any], original: Action) -> dict[str, Any]:
    """The values in the format of `view.state.values` (Slack, "View submissions")."""
    there = set(read_form(form))
    found = {}
    for each in argument_fields(original, schema):
        if each.block_id in there and not each.fixed:
            given = form.get(each.block_id)
            found[each.block_id] = {FIELD_INPUT: _state(each.property.kind, given)}
    return found


def _state(kind: InputKind, given: Any) -> dict[str, Any]:
    typed = given if isinstance(given, str) else ""
    match kind:
        case InputKind.SWITCH:
            return {"selected_options": [{"value": "yes"}] if typed == "yes" else []}
        case InputKind.CHOICE:
            return {"selected_option": {"value": typed} if typed else None}
        case InputKind.DATE:
            return {"selected_date": typed or None}
        case _:
            return {"value": typed}


@router.get("/inbox/requests/{request_id}")
async def look(request: Request, request_id: str, who: Signed, go: str = "") -> Response:
    """``go`` opens a form."""
    if go in VERDICTS:  # from an e-mail: a fragment would not survive the sign-in
        return redirect_after_form(f"/inbox/requests/{request_id}#{go}")
    return await _show(web_context(request), who, request_id)


@router.get("/inbox/requests/{request_id}/now")
async def look_again(request: Request, request_id: str, who: Signed, shown: str = "") -> Response:
    """The state alone, to refresh an open page; with the forms if those ``shown`` are stale."""
    request_page = await open_page(web_context(request), who, request_id)
    return page(
        "now.html",
        visitor=who,
        request_page=request_page,
        names=request_page.names,
        typed=EnteredForm(),
        shown=shown,
    )


async def vote(request: Request, request_id: str, who: Signed, form: Form) -> Response:
    """Vote on the revision that was shown. A reason is the checkpoint's, free text, or both."""
    ctx, verdict = web_context(request), Verdict(request.scope["path"].rpartition("/")[2])
    approves, back = verdict is Verdict.APPROVE, _row(form)
    view = await true_view(ctx, who, request_id)
    values = {name: entered_text(form, name) for name in ("choice", "comment", "own")}
    typed = EnteredForm(verdict, values=values)
    if approves and (withheld := unreadable(await clean_view(view))):
        problem = f"Approve is withheld: {withheld}"  # whatever the input: no such button was shown
        return await _show(ctx, who, request_id, _with(typed, problem), 409)
    if approves and view.risk >= Risk.HIGH and form.get("sure") != "yes":
        return await _show(ctx, who, request_id, _with(typed, SURE.format(risk=view.risk.value)), 422)
    if approves:
        reason = "" if back else values["comment"]  # a row has neither comment field nor checkbox
    else:
        chosen = values["choice"] if values["choice"] in view.rule.reject_reasons else ""
        reason = ": ".join(part for part in (chosen, values["own"]) if part)[:MAX_REASON]
    path = ROW if back else PATH
    cast = NewVote(who.person, view.id, _revision(form, view), verdict, path, reason or None)
    try:
        async with asyncio.timeout(BUDGET):
            await cast_vote(ctx.votes, ctx.slack.directory, cast)
    except Refused as refused:
        if refused.code is Refusal.REASON_REQUIRED:
            return await _show(ctx, who, request_id, _with(typed, VERDICTS[verdict].reason_missing), 422)
        return await _show(ctx, who, request_id, _with(typed, refused.sentence), 409)
    except TimeoutError:
        return await _show(ctx, who, request_id, _with(typed, OUTCOME_UNKNOWN), 503)
    if back:
        done = f"{back}{'&' if '?' in back else '?'}done={view.id}"
        return redirect_after_form(f"{done}#row-{then}" if (then := _neighbour(form)) else done)
    return redirect_after_form(f"/inbox/requests/{view.id}#next")


@router.post("/inbox/requests/{request_id}/answer")
async def answer(request: Request, request_id: str, who: Signed, form: Form) -> Response:
    """Answer a question that wants more than yes or no."""
    ctx = web_context(request)
    view = await true_view(ctx, who, request_id)
    given = {name: "\n".join(map(str, form.getlist(name))) for name in form if name[:1] in "fo"}
    typed = EnteredForm(Verdict.ANSWER, values=given)
    if view.answer_form is None:
        return await _show(ctx, who, request_id, _with(typed, sentence(Refusal.OTHER_VERDICT)), 409)
    try:
        async with asyncio.timeout(BUDGET):
            said = await read_answer(
                ctx.slack.directory, view.answer_form, _entries(view.answer_form, form).read()
            )
            cast = NewVote(who.person, view.id, _revision(form, view), Verdict.ANSWER, PATH, answer=said)
            await cast_vote(ctx.votes, ctx.slack.directory, cast)
    except UnfitAnswer as unfit:
        return await _show(ctx, who, request_id, _with(typed, CHECK, unfit.problems), 422)
    except Refused as refused:
        return await _show(ctx, who, request_id, _with(typed, refused.sentence), 409)
    except TimeoutError:
        return await _show(ctx, who, request_id, _with(typed, OUTCOME_UNKNOWN), 503)
    return redirect_after_form(f"/inbox/requests/{view.id}#next")


def _entries(form: AnswerForm, given: FormData) -> AnswerEntries:
    texts = [[str(each) for each in given.getlist(f"f{at}")] for at in range(len(form.fields))]
    return AnswerEntries(form, texts, given.get("other"))


for each in ON_APPROVAL:
    router.post(f"/inbox/requests/{{request_id}}/{each}")(vote)


@router.post("/inbox/requests/{request_id}/edit")
async def edit(request: Request, request_id: str, who: Signed, form: Form) -> Response:
    """A new revision is approved or rejected like any other."""
    ctx = web_context(request)
    view = await true_view(ctx, who, request_id)
    entered = read_form(form)
    typed = EnteredForm("edit", values={key: value for key, value in form.items() if isinstance(value, str)})
    try:
        schema = schema_of(ctx.services.registry, view)
    except NotFound:
        return await _show(ctx, who, request_id, _with(typed, edits.NOT_SERVED), 409)
    arguments, errors = read_edit(states(form, schema, view.action), schema, view.action)
    if errors:
        return await _show(ctx, who, request_id, _with(typed, "", errors), 422)
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
        return await _show(ctx, who, request_id, _with(typed, "" if at else str(wrong), at), 422)
    except Refused as refused:
        return await _show(ctx, who, request_id, _with(typed, refused.sentence), 409)
    except TimeoutError:
        return await _show(ctx, who, request_id, _with(typed, OUTCOME_UNKNOWN), 503)
    if not edited.changed:
        return await _show(ctx, who, request_id, _with(typed, edits.NOTHING_CHANGED), 422)
    return redirect_after_form(f"/inbox/requests/{request_id}")


@router.post("/inbox/requests/{request_id}/withdraw")
async def withdraw(request: Request, request_id: str, who: Signed, form: Form) -> Response:
    """Withdraw the request as its requester."""
    ctx = web_context(request)
    view = await true_view(ctx, who, request_id)
    if who.person != view.requester:
        raise NotFound(request_id)
    if not await requests.withdraw(ctx.db, view.id, who.person, entered_text(form, "why") or None):
        return await _show(ctx, who, request_id, EnteredForm("withdraw", TOO_LATE), 409)
    return redirect_after_form(f"/inbox/requests/{request_id}")


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
    """The revision for which the form was drawn; a missing one matches none."""
    given: Any = form.get("revision")
    return (
        int(given) if isinstance(given, str) and given.isdecimal() and len(given) < 10 else view.revision + 1
    )


def _row(form: FormData) -> str:
    """The list with the row that was pressed, if it was one."""
    back = form.get("back")
    return local_address(back) if isinstance(back, str) else ""


def entered_text(form: FormData, name: str) -> str:
    """Return what a visitor entered in a field, at most `MAX_REASON` characters; empty if there is no such field."""
    given = form.get(name)
    return given.replace("\r\n", "\n").strip()[:MAX_REASON] if isinstance(given, str) else ""


def _neighbour(form: FormData) -> UUID | None:
    """The row that the list goes on with."""
    try:
        return UUID(str(form.get("then") or ""))
    except ValueError:
        return None
