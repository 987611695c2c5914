"""Which runs a program may see, masked, and never another workspace's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from agent.domain.api_keys import Principal, Scope
from agent.domain.errors import NotFound
from agent.domain.run import RunLine, RunView
from agent.store import views
from signoff.values import Person
from slackbot.masking import clean_descriptions
from slackbot.reviewing.listing import without_secrets
from slackbot.reviewing.visibility import reviewer_scope, visible_runs
from slackbot.web.http.context import WebContext

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
