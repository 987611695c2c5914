from __future__ import annotations

from agent.store import views
from slackbot.cards import AgentLine, Card, agent_list, misunderstood_command, run_list, usage
from slackbot.reviewing.cancel import NO_SUCH_RUN as NO_RUN_TO_CANCEL
from slackbot.reviewing.cancel import may_cancel
from slackbot.reviewing.listing import GOING, without_secrets
from slackbot.reviewing.members import check_member
from slackbot.reviewing.visibility import visible_runs
from slackbot.slack.listeners import agent_form, cancel, listing, pause
from slackbot.slack.listeners.command_input import SlashCommand
from slackbot.slack.listeners.context import ListenerContext
from slackbot.slack.listeners.run_starts import start

NO_SUCH_RUN = "No run that you may see has an id that begins like this."
AMBIGUOUS = "Several ids begin like this. Please type more of the id."
WHICH_RUN = "Which run? The id is at the end of each line in /agent status."


async def _form(ctx: ListenerContext, said: SlashCommand) -> Card | None:
    return None if await agent_form.show_form(ctx, said) else usage("/agent")


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
        return misunderstood_command("/agent", WHICH_RUN, about="cancel")
    ids = await ctx.db.read(views.runs_like, team_id=ctx.directory.own_team_id, id_prefix=said.rest)
    if len(ids) != 1:
        return Card(AMBIGUOUS if ids else NO_RUN_TO_CANCEL, [])
    return Card(await cancel.cancel(ctx, said.person, ids[0], cancel.COMMAND), [])


async def _help(_: ListenerContext, __: SlashCommand) -> Card:
    return usage("/agent")


VERBS = {
    "run": _run,
    "list": _list,
    "status": _status,
    "cancel": _cancel,
    "pause": pause.pause,
    "resume": pause.resume,
    "help": _help,
}
HIDDEN = {"": _form, "start": _run, "agents": _list, "runs": _status, "stop": _cancel}
