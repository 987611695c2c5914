"""A program starts runs, and sees its own, masked, and never another workspace's."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from agent.domain.api_keys import Principal, Scope
from agent.domain.errors import NotFound
from agent.domain.run import RunLine, RunView
from agent.runtime.agents import Agent
from agent.store import views
from agent.usecases.runs import StartOutcome
from signoff.errors import Conflict
from signoff.values import Person
from slackbot.masking import clean_descriptions
from slackbot.reviewing import run_starts
from slackbot.reviewing.listing import without_secrets
from slackbot.reviewing.run_starts import Requester
from slackbot.reviewing.visibility import reviewer_scope, visible_runs
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


NO_SUCH_RUN = "There is no such run, or this key may not see it."


async def run_for(ctx: WebContext, principal: Principal, run_id: UUID) -> RunLine:
    """The run with its open requests. Raises NotFound, also if this key may not see it."""
    async with ctx.db.connection() as connection:
        known = await views.cancel_context(connection, run_id)
        line = await views.run_line(connection, run_id)
    if known is None or line is None or known.team_id != ctx.slack.team_id:
        raise NotFound(NO_SUCH_RUN)
    if principal.sees_all or line.run.principal == principal.name:
        return line
    if principal.may(Scope.DECIDE) and principal.owner and await _sees(ctx, principal.owner, line.run, known):
        return line
    raise NotFound(NO_SUCH_RUN)


async def _sees(ctx: WebContext, person: Person, run: RunView, known: views.CancelContext) -> bool:
    """As in Slack: one's own runs, those in one's channels, those one may decide on, or all for administrators."""
    directory = ctx.slack.directory
    if (await directory.identify(person)).refusal is not None:
        return False
    if await visible_runs(directory, person, [run]):
        return True
    scope = await reviewer_scope(directory, person, known.audiences)
    return bool(scope.roles or scope.channels)


async def clean_run_lines(ctx: WebContext, lines: Sequence[RunLine]) -> list[RunLine]:
    """Mask also what the checkpoints of a run's calls hide."""
    runs = await without_secrets(ctx.db, [line.run for line in lines])
    asked = await clean_descriptions([each.description for line in lines for each in line.asked])
    described = iter(asked)
    return [
        RunLine(run, tuple(replace(each, description=next(described)) for each in line.asked))
        for line, run in zip(lines, runs, strict=True)
    ]
