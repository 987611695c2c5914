"""Agents on the inbox page: start, cancel, pause, resume."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from agent.domain.errors import NotFound
from slackbot.reviewing import cancel as cancellation
from slackbot.reviewing import pause as pausing
from slackbot.reviewing import run_starts
from slackbot.reviewing.run_starts import NotStarted, Requester
from slackbot.web.auth.visitors import Form, Signed
from slackbot.web.http.context import web_context
from slackbot.web.inbox.rendering import PageRoute, redirect_after_form
from slackbot.web.inbox.runs import StartForm, show_runs, visible_run

PATH = "page"
MAX_REASON = 500

NO_AGENT = "Please choose an agent from the list."
NO_TASK = "Please say what the agent should do."

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.post("/inbox/runs")
async def start(request: Request, who: Signed, form: Form) -> Response:
    """The same form twice starts one run."""
    ctx = web_context(request)
    name, task, once = (_text(form.get(each)) for each in ("agent", "task", "once"))
    agent = ctx.services.registry.find(name)
    if agent is None or not task:
        problem = NO_TASK if agent else NO_AGENT
        return await show_runs(ctx, who, StartForm(problem, name, task, once), 422)
    key = f"page:{who.person.team_id}:{who.person.user_id}:{once}" if once else None
    requester = Requester(who.person, "slack")
    try:
        started = await run_starts.start(
            ctx.services, ctx.slack.directory, agent, task, requester, "slack:page", start_key=key
        )
    except NotStarted as why:
        return await show_runs(ctx, who, StartForm(str(why), name, task, once), 422)
    return redirect_after_form(f"/inbox/runs/{started.run_id}")


@router.post("/inbox/runs/{run_id}/cancel")
async def cancel(request: Request, run_id: str, who: Signed, _: Form) -> Response:
    """An ended run is unchanged."""
    ctx = web_context(request)
    view = await visible_run(ctx, who, run_id)
    await cancellation.cancel(ctx.db, ctx.slack.directory, who.person, view.id, path=PATH)
    return redirect_after_form(f"/inbox/runs/{view.id}")


@router.post("/inbox/pause")
async def pause(request: Request, who: Signed, form: Form) -> Response:
    """Pause the agent that the form names, or all without a name. Raises NotFound for an unknown agent."""
    ctx, agent = web_context(request), _text(form.get("agent")) or None
    if agent is not None and ctx.services.registry.find(agent) is None:
        raise NotFound(agent)
    reason = _text(form.get("reason"))[:MAX_REASON] or None
    await pausing.pause(ctx.db, ctx.slack.directory, who.person, agent, reason)
    return redirect_after_form("/inbox/runs")


@router.post("/inbox/resume")
async def resume(request: Request, who: Signed, form: Form) -> Response:
    """Resume one agent, or end the pause of all."""
    ctx, agent = web_context(request), _text(form.get("agent")) or None
    await pausing.resume(ctx.db, ctx.slack.directory, who.person, agent)
    return redirect_after_form("/inbox/runs")


def _text(given: object) -> str:
    return given.replace("\r\n", "\n").strip() if isinstance(given, str) else ""
