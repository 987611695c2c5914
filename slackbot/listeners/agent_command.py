"""`/agent`: start agents, see how runs are doing, end them."""

from __future__ import annotations

from agent.store import reads
from slackbot.cards import AgentLine, Card, agent_list, misunderstood, run_list, usage
from slackbot.identity import visible_runs
from slackbot.listeners import agent_form, cancelling, lists, pausing
from slackbot.listeners.doors import Doors
from slackbot.listeners.starting import start
from slackbot.listeners.typed import Typed, check_belongs

NO_SUCH_RUN = "No run that you may see has an id that begins like this."
AMBIGUOUS = "Several ids begin like this; please give more of it."
WHICH_RUN = "Which run? Its id is at the end of its line in /agent status."


async def _form(doors: Doors, said: Typed) -> Card | None:
    return None if await agent_form.show_form(doors, said) else usage("/agent")


async def _run(doors: Doors, said: Typed) -> Card:
    return await start(
        doors,
        said.person,
        said.rest,
        channel_id=said.channel_id,
        start_key=f"command:{said.person.team_id}:{said.trigger_id}",
        by="slack:/agent",
    )


async def _list(doors: Doors, _: Typed) -> Card:
    return agent_list(
        [
            AgentLine(agent.name, agent.version, tuple(tool.name for tool in agent.tools))
            for agent in doors.agents
        ]
    )


async def _status(doors: Doors, said: Typed) -> Card:
    await check_belongs(doors, said.person)
    if not said.rest:
        return await lists.recent_runs(doors, said.person)
    async with doors.db.connection() as connection:
        ids = await reads.runs_like(connection, team_id=doors.directory.own_team_id, id_prefix=said.rest)
        run = await reads.run_view(connection, ids[0]) if len(ids) == 1 else None
    seen = await visible_runs(doors.directory, said.person, [run]) if run else []
    if not seen:
        return Card(AMBIGUOUS if len(ids) > 1 else NO_SUCH_RUN, [])
    going = frozenset(each.id for each in seen if each.status in lists.GOING)
    return run_list(await lists.shown_runs(doors, seen), cancellable=going)


async def _cancel(doors: Doors, said: Typed) -> Card:
    await check_belongs(doors, said.person)
    if not said.rest:
        return misunderstood("/agent", WHICH_RUN, about="cancel")
    async with doors.db.connection() as connection:
        ids = await reads.runs_like(connection, team_id=doors.directory.own_team_id, id_prefix=said.rest)
    if len(ids) != 1:
        return Card(AMBIGUOUS if ids else cancelling.NO_SUCH_RUN, [])
    return Card(await cancelling.cancel(doors, said.person, ids[0], cancelling.COMMAND), [])


async def _help(_: Doors, __: Typed) -> Card:
    return usage("/agent")


VERBS = {
    "run": _run,
    "list": _list,
    "status": _status,
    "cancel": _cancel,
    "pause": pausing.pause,
    "resume": pausing.resume,
    "help": _help,
}
HIDDEN = {"": _form, "start": _run, "agents": _list, "runs": _status, "stop": _cancel}
