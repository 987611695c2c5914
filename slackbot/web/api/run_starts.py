"""A run is started for a program."""

from __future__ import annotations

import difflib
import hashlib

from agent.domain.api_keys import Principal
from agent.runtime.agents import Agent
from agent.store import views
from agent.usecases.runs import StartOutcome
from signoff.errors import Conflict
from slackbot.reviewing import run_starts
from slackbot.reviewing.run_starts import Requester
from slackbot.web.http.context import WebContext
from slackbot.web.http.problems import ProblemRaised


def agent_named(ctx: WebContext, name: str) -> Agent:
    """Raises ProblemRaised (404), which suggests similar names."""
    agents = ctx.services.registry
    if (found := agents.find(name)) is not None:
        return found
    known = [each.name for each in agents]
    near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(near)}?" if near else "."
    words = f'There is no agent "{name[:64]}"{hint}'
    raise ProblemRaised(404, "no-such-agent", "No such agent", words, near=near, agents=known[:50])


def stored_start_key(principal: Principal, key: str) -> str:
    """A key may be a secret of its program, so the database has its SHA-256."""
    return f"{principal.name}:{hashlib.sha256(key.encode()).hexdigest()}"


async def start(
    ctx: WebContext,
    principal: Principal,
    agent: Agent,
    task: str,
    requester: Requester,
    *,
    start_key: str | None = None,
    session_id: str | None = None,
    program_user: str | None = None,
    label: str | None = None,
) -> StartOutcome:
    """Start the agent in a new thread. Raises Conflict if the start key was used otherwise."""
    started = await run_starts.start(
        ctx.services,
        ctx.slack.directory,
        agent,
        task,
        requester,
        principal.name,
        start_key=stored_start_key(principal, start_key) if start_key else None,
        session_id=session_id,
        program_user=program_user,
        api_key_id=principal.key_id,
        label=label,
    )
    if not started.created:
        run = await ctx.db.read(views.run_view, started.run_id)
        asked = (agent.name, task, requester.person)
        if (
            run is None
            or (run.agent, run.task, run.requester) != asked
            or program_user not in (None, run.program_user)
        ):
            words = "a run was started with this key before, for another agent, task, requester or user"
            raise Conflict(words)
    return started
