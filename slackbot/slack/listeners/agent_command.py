"""The verbs of `/agent`."""

from __future__ import annotations

from agent.store import views
from agent.usecases.pause import active_pauses
from slackbot.cards import AgentLine, Card, agent_list, misunderstood_command, run_list, usage
from slackbot.cards.command_names import AGENT
from slackbot.masking import clean_text
from slackbot.reviewing import pause as pausing
from slackbot.reviewing.cancel import NO_SUCH_RUN as NO_RUN_TO_CANCEL
from slackbot.reviewing.cancel import may_cancel
from slackbot.reviewing.listing import GOING, without_secrets
from slackbot.reviewing.members import check_member
from slackbot.reviewing.visibility import visible_runs
from slackbot.slack.listeners import agent_form, cancel, listing
from slackbot.slack.listeners.command_input import SlashCommand
from slackbot.slack.listeners.context import ListenerContext
from slackbot.slack.listeners.run_starts import closest_name, split, start

NO_SUCH_RUN = "No run that you may see has an id that begins like this."
AMBIGUOUS = "Several ids begin like this. Please type more of the id."
WHICH_RUN = "Which run? The id is at the end of each line in /agent status."
ALL = ("", "all", "*", "everything")


async def _form(ctx: ListenerContext, said: SlashCommand) -> Card | None:
    return None if await agent_form.show_form(ctx, said) else usage(AGENT, ctx.commands)


async def _run(ctx: ListenerContext, said: SlashCommand) -> Card:
    return await start(
        ctx,
        said.person,
        said.rest,
        channel_id=said.channel_id,
        start_key=f"command:{said.person.team_id}:{said.trigger_id}",
        by="slack:/agent",
    )


async def _list(ctx: ListenerContext, _: SlashCommand) -> Card:
    return agent_list(
        [
            AgentLine(agent.name, agent.version, tuple(tool.name for tool in agent.tools))
            for agent in ctx.agents
        ]
    )


async def _status(ctx: ListenerContext, said: SlashCommand) -> Card:
    await check_member(ctx.directory, said.person)
    if not said.rest:
        return await listing.recent_runs(ctx, said.person)
    async with ctx.db.connection() as connection:
        ids = await views.runs_like(connection, team_id=ctx.directory.own_team_id, id_prefix=said.rest)
        run = await views.run_view(connection, ids[0]) if len(ids) == 1 else None
    seen = await visible_runs(ctx.directory, said.person, [run]) if run else []
    if not seen:
        return Card(AMBIGUOUS if len(ids) > 1 else NO_SUCH_RUN, [])
    theirs = [
        each.id
        for each in seen
        if each.status in GOING and await may_cancel(ctx.db, ctx.directory, said.person, each.id)
    ]
    return run_list(await without_secrets(ctx.db, seen), cancellable=frozenset(theirs))


async def _cancel(ctx: ListenerContext, said: SlashCommand) -> Card:
    await check_member(ctx.directory, said.person)
    if not said.rest:
        return misunderstood_command(AGENT, ctx.commands.spelled(WHICH_RUN), ctx.commands, about="cancel")
    ids = await ctx.db.read(views.runs_like, team_id=ctx.directory.own_team_id, id_prefix=said.rest)
    if len(ids) != 1:
        return Card(AMBIGUOUS if ids else NO_RUN_TO_CANCEL, [])
    return Card(await cancel.cancel(ctx, said.person, ids[0], cancel.COMMAND), [])


async def _help(ctx: ListenerContext, __: SlashCommand) -> Card:
    return usage(AGENT, ctx.commands)


async def pause(ctx: ListenerContext, said: SlashCommand) -> Card:
    """Raises Refused unless for an administrator."""
    return await _turn(ctx, said, stop=True)


async def resume(ctx: ListenerContext, said: SlashCommand) -> Card:
    """Raises Refused unless for an administrator."""
    return await _turn(ctx, said, stop=False)


async def _turn(ctx: ListenerContext, said: SlashCommand, *, stop: bool) -> Card:
    name, reason = split(said.rest)
    agent = None if name.lower() in ALL else name
    if agent is not None and ctx.agents.find(agent) is None:
        return _unknown(ctx, said, agent)
    if stop:
        turned = await pausing.pause(ctx.db, ctx.directory, said.person, agent, reason or None)
        outcome = _PAUSED if turned else _WAS_PAUSED
    else:
        turned = await pausing.resume(ctx.db, ctx.directory, said.person, agent)
        outcome = _RESUMED if turned else await _not_paused(ctx, agent)
    who = f"The agent {agent}" if agent else "Every agent"
    return Card(await clean_text(outcome.format(who=who)), [])


_PAUSED = (
    "⏸ {who} is paused: nothing begins, approved or not, until somebody resumes it. "
    "Calls that are already running finish; people can keep voting."
)
_WAS_PAUSED = "⏸ {who} was already paused."
_RESUMED = "▶ {who} is resumed; what was approved in the meantime begins now."


async def _not_paused(ctx: ListenerContext, agent: str | None) -> str:
    others = [each.agent or "every agent" for each in await active_pauses(ctx.db)]
    hint = f" Paused now: {', '.join(others)}." if others else ""
    nothing = "{who} was not paused." if agent else "There was no pause for all agents."
    return nothing + hint.replace("{", "{{").replace("}", "}}")


def _unknown(ctx: ListenerContext, said: SlashCommand, name: str) -> Card:
    near = closest_name(name, [agent.name for agent in ctx.agents])
    hint = f'; did you mean "{near}"?' if near else "; leave the name out for every agent."
    guess = f"{ctx.commands.agent} {said.verb} {near}{said.rest.removeprefix(name)}" if near else None
    problem = f'There is no agent "{name[:40]}"{hint}'
    return misunderstood_command(AGENT, problem, ctx.commands, guess=guess, about=said.verb)


VERBS = {
    "run": _run,
    "list": _list,
    "status": _status,
    "cancel": _cancel,
    "pause": pause,
    "resume": resume,
    "help": _help,
}
HIDDEN = {"": _form, "start": _run, "agents": _list, "runs": _status, "stop": _cancel}
