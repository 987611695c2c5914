"""The pages of runs, and the form that starts one."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request
from starlette.responses import Response

from agent.domain.errors import NotFound
from agent.domain.run import CallView, Message, RunView
from agent.store import views
from agent.usecases.pause import active_pauses
from slackbot.cards import parse_id
from slackbot.masking import clean_run, clean_text, clean_value, hidden_in_run
from slackbot.reviewing.cancel import may_cancel
from slackbot.reviewing.listing import GOING, PersonalLists, without_secrets
from slackbot.reviewing.visibility import visible_runs
from slackbot.web.auth.visitors import Signed, Visitor
from slackbot.web.http.context import WebContext, web_context
from slackbot.web.inbox.history import actor_of
from slackbot.web.inbox.rendering import PageRoute, page

MAX_ENTRIES = 300

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@dataclass(frozen=True, slots=True)
class ConversationEntry:
    """Only a call has a ``tool``."""

    role: str
    text: str = ""
    tool: str = ""
    state: str = ""
    answer: str = ""
    request_id: UUID | None = None
    user_id: str = ""


@dataclass(frozen=True, slots=True)
class StartForm:
    """Input to start an agent, and why it was refused. ``once`` makes a form submitted twice one run."""

    problem: str = ""
    agent: str = ""
    task: str = ""
    once: str = field(default_factory=lambda: secrets.token_urlsafe(16))


@router.get("/inbox/runs")
async def runs(request: Request, who: Signed) -> Response:
    """Serve the page of the latest runs that the visitor may see, with a form that starts one."""
    return await show_runs(web_context(request), who, StartForm())


async def show_runs(ctx: WebContext, who: Visitor, form: StartForm, status: int = 200) -> Response:
    """Render the page of runs and pauses; a refused form comes back as it was entered, with its status."""
    directory = ctx.slack.directory
    found = await PersonalLists(ctx.db, directory, who.person).latest_runs()
    seen = await without_secrets(ctx.db, found)
    pauses = await active_pauses(ctx.db)
    stopped = [(each, *actor_of(each.by), await clean_text(each.reason or "")) for each in pauses]
    by = [user_id for _, user_id, _, _ in stopped if user_id]
    return page(
        "runs.html",
        status,
        here="runs",
        visitor=who,
        runs=seen,
        agents=sorted(agent.name for agent in ctx.services.registry),
        form=form,
        stopped=stopped,
        paused={each.agent for each in pauses},
        administrator=await directory.is_admin(who.person),
        **await _named(ctx, who, seen, by),
    )


@router.get("/inbox/runs/{run_id}")
async def run(request: Request, run_id: str, who: Signed) -> Response:
    """Serve the page of one run. Raises NotFound, also for a visitor who may not see it."""
    return page("run.html", here="runs", visitor=who, **await _opened(web_context(request), who, run_id))


@router.get("/inbox/runs/{run_id}/now")
async def run_now(request: Request, run_id: str, who: Signed) -> Response:
    """To refresh an open page."""
    return page("transcript.html", visitor=who, **await _opened(web_context(request), who, run_id))


async def visible_run(ctx: WebContext, who: Visitor, run_id: str) -> RunView:
    """Raises NotFound, also for a reader who may not see the run."""
    wanted = parse_id(run_id)
    if wanted is None:
        raise NotFound(run_id)
    view = await ctx.db.read(views.run_view, wanted)
    seen = await visible_runs(ctx.slack.directory, who.person, [view] if view else [])
    if not seen:
        raise NotFound(run_id)
    return seen[0]


async def _opened(ctx: WebContext, who: Visitor, run_id: str) -> dict[str, Any]:
    view = await visible_run(ctx, who, run_id)
    wanted = view.id
    async with ctx.db.connection() as connection:
        messages = await views.messages(connection, wanted)
        calls = await views.calls(connection, wanted)
        values = (await views.values_of(connection, [wanted])).get(wanted)
    hidden = hidden_in_run(values)
    entries = _entries(messages, calls)
    shown: list[Any] = await clean_value([[e.text, e.answer] for e in entries[-MAX_ENTRIES:]], hidden)
    clean = [
        ConversationEntry(e.role, text, e.tool, e.state, answer, e.request_id, e.user_id)
        for e, (text, answer) in zip(entries[-MAX_ENTRIES:], shown, strict=True)
    ]
    thread = (view.channel_id, view.thread_ts)
    paused_by = actor_of(view.paused_by) if view.paused_by and view.held_up else None
    authors = [entry.user_id for entry in clean if entry.user_id]
    links = await ctx.slack.permalinks.of([(thread[0], thread[1])] if thread[0] and thread[1] else [])
    return {
        "run": await clean_run(view, hidden),
        "cancellable": view.status in GOING
        and await may_cancel(ctx.db, ctx.slack.directory, who.person, wanted),
        "entries": clean,
        "omitted": max(0, len(entries) - MAX_ENTRIES),
        "thread_link": next(iter(links.values()), None),
        "paused_by": paused_by,
        **await _named(ctx, who, [view], [*authors, *filter(None, [paused_by and paused_by[0]])]),
    }


def _entries(messages: Sequence[Message], calls: Sequence[CallView]) -> list[ConversationEntry]:
    """Each turn's calls follow the model's text."""
    found: list[ConversationEntry] = []
    left = list(calls)
    for message in messages:
        author = message.author.user_id if message.author else ""
        if message.text:
            found.append(ConversationEntry(message.role, message.text, user_id=author))
        if message.role == "assistant":
            found += [_call(call) for call in left if call.turn <= message.turn]
            left = [call for call in left if call.turn > message.turn]
    return [*found, *map(_call, left)]


def _call(call: CallView) -> ConversationEntry:
    state = call.answer.kind.value if call.answer else call.state.value
    answer = call.answer.text if call.answer else ""
    return ConversationEntry(
        "call", call.raw_arguments, call.tool, state.replace("_", " "), answer, request_id=call.request_id
    )


async def _named(
    ctx: WebContext, who: Visitor, seen: Sequence[RunView], more: Sequence[str] = ()
) -> dict[str, Any]:
    people = {who.person.user_id, *more, *(each.requester.user_id for each in seen if each.requester)}
    directory = ctx.slack.directory
    return {
        "names": await directory.names(people),
        "channels": await directory.channel_names(each.channel_id for each in seen if each.channel_id),
    }
