"""Forms of a decision: submitting is the vote or the edit; errors appear in the form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from slack_bolt.async_app import AsyncAck, AsyncApp

from agent.database.errors import DatabaseRefuses
from agent.domain.answers import UnfitAnswer
from agent.domain.errors import DOUBTFUL, OUTDATED, NotFound, Refusal, Refused
from agent.domain.request import Verdict
from agent.domain.request_view import RequestView
from agent.domain.verdicts import VERDICTS
from agent.runtime.judging.edits import schema_of
from signoff.errors import MalformedArguments
from slackbot.cards import (
    CALLBACK_ANSWER,
    CALLBACK_EDIT,
    CALLBACK_GRANT,
    CALLBACK_SAVE_GRANT,
    CALLBACK_VOTE,
    edit_errors,
    edit_modal,
    notice_modal,
    question_errors,
    read_edit,
    read_question_modal,
    reason_of,
)
from slackbot.cards.values import REASON_BLOCK
from slackbot.masking import clean_view
from slackbot.reviewing import edits
from slackbot.reviewing.answers import read_answer
from slackbot.reviewing.votes import OUTCOME_UNKNOWN, cast_vote
from slackbot.slack.listeners import details, grants
from slackbot.slack.listeners.buttons import ButtonClick, card_of
from slackbot.slack.listeners.catch_all import OLD_FORM
from slackbot.slack.listeners.context import ListenerContext, log_failed
from slackbot.slack.listeners.modals import NOT_RECORDED, FormError, Shown, on_last_input

PATH = "slack_modal"


_ABOUT_THE_EDIT = (
    Refusal.STRICTER_CHECKPOINT,
    Refusal.EDIT_DENIED,
    Refusal.EDIT_UNCHECKED,
    Refusal.REDACTED_EDIT,
)


Work = Callable[[ListenerContext, ButtonClick, dict[str, Any]], Awaitable[FormError | None]]
"""Work of a submission's `view`; `None`: done."""


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    """Register the submissions of vote, edit and grant forms."""

    def form(callback_id: str, work: Work) -> None:
        @app.view(callback_id)
        async def submitted(ack: AsyncAck, body: dict[str, Any], view: dict[str, Any]) -> None:
            await _answer(ctx, ack, body, view, work)

    for verdict, callback_id in CALLBACK_VOTE.items():
        form(callback_id, partial(_vote, verdict))
    form(CALLBACK_ANSWER, _give_answer)
    form(CALLBACK_EDIT, _edit)
    form(CALLBACK_GRANT, grants.preview)
    form(CALLBACK_SAVE_GRANT, grants.save)


async def _answer(
    ctx: ListenerContext, ack: AsyncAck, body: dict[str, Any], view: dict[str, Any], work: Work
) -> None:
    click = ButtonClick.resume(body, (view.get("private_metadata") or "").partition("\n")[0])
    if click is None:
        await ack(response_action="update", view=notice_modal(NOT_RECORDED, OLD_FORM))
        return
    outdated = False
    try:
        async with ctx.in_budget():
            wrong = await work(ctx, click, view)
    except Refused as refused:
        wrong, outdated = _refused(view, refused), refused.code in OUTDATED
    except Exception as error:
        # The form stays open with its content, and says that it may be sent again.
        log_failed("a form failed", error)
        sentence = error.sentence if isinstance(error, DatabaseRefuses) else OUTCOME_UNKNOWN
        wrong = FormError(errors=on_last_input(view, sentence), notice=sentence)
    if wrong is None and click.from_more:
        await ack(response_action="clear")
    elif wrong is None:
        await ack()
    elif wrong.next_step:
        await ack(response_action="update", view=wrong.next_step)
        return
    elif wrong.errors:
        await ack(response_action="errors", errors=wrong.errors)
        return
    else:
        await ack(response_action="update", view=notice_modal(wrong.heading, wrong.notice, reason_of(view)))
    details.show_change(ctx, click, body, outdated=outdated)


async def _vote(
    verdict: Verdict, ctx: ListenerContext, click: ButtonClick, view: dict[str, Any]
) -> FormError | None:
    try:
        await cast_vote(ctx.votes, ctx.directory, click.vote(verdict, PATH, reason_of(view)))
    except Refused as refused:
        if refused.code is Refusal.REASON_REQUIRED:
            return FormError(errors={REASON_BLOCK: VERDICTS[verdict].reason_missing})
        raise
    return None


async def _give_answer(ctx: ListenerContext, click: ButtonClick, view: dict[str, Any]) -> FormError | None:
    request = await card_of(ctx, click)
    if request.answer_form is None:
        raise Refused(Refusal.OTHER_VERDICT)
    try:
        entries = read_question_modal(view["state"]["values"], request.answer_form)
        answer = await read_answer(ctx.directory, request.answer_form, entries.read())
    except UnfitAnswer as unfit:
        return FormError(errors=question_errors(view, request.answer_form, unfit), notice=str(unfit))
    await cast_vote(ctx.votes, ctx.directory, click.vote(Verdict.ANSWER, PATH, answer=answer))
    return None


async def _edit(ctx: ListenerContext, click: ButtonClick, view: dict[str, Any]) -> FormError | None:
    request = await card_of(ctx, click)
    try:
        schema = schema_of(ctx.agents, request)
    except NotFound:
        return FormError(notice=edits.NOT_SERVED)
    arguments, errors = read_edit(view["state"]["values"], schema, request.action)
    if errors:
        return FormError(errors=errors)
    try:
        edited = await edits.save(
            ctx.services,
            ctx.directory,
            click.person,
            request,
            click.value.revision,
            arguments,
            path=EDIT_PATH,
            place=click.place,
        )
    except MalformedArguments as wrong:
        at = edit_errors(view, schema, request.action, arguments, wrong.problem, wrong.path)
        return FormError(at, str(wrong))
    except Refused as refused:
        if refused.code not in _ABOUT_THE_EDIT:
            raise
        return FormError(
            edit_errors(view, schema, request.action, arguments, refused.sentence), refused.sentence
        )
    return (
        None
        if edited.changed
        else FormError(on_last_input(view, edits.NOTHING_CHANGED), edits.NOTHING_CHANGED)
    )


def _refused(view: dict[str, Any], refused: Refused) -> FormError:
    """Keep the form's content if it may be sent again soon; any other refusal replaces it."""
    if refused.code in DOUBTFUL:
        return FormError(on_last_input(view, refused.sentence), refused.sentence)
    return FormError(notice=refused.sentence)


EDIT_PATH = "slack_edit"


async def edit_form(ctx: ListenerContext, view: RequestView, click: ButtonClick) -> Shown:
    """Raises Refused if edits are not allowed, and NotFound."""
    if not view.rule.allow_edit:
        raise Refused(Refusal.EDIT_NOT_ALLOWED)
    return edit_modal(await clean_view(view), schema_of(ctx.agents, view), click.carry())
