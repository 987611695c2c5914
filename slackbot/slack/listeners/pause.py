from __future__ import annotations

from agent.usecases.pause import active_pauses
from slackbot.cards import Card, misunderstood_command
from slackbot.masking import clean_text
from slackbot.reviewing import pause as pausing
from slackbot.slack.listeners.command_input import SlashCommand
from slackbot.slack.listeners.context import ListenerContext
from slackbot.slack.listeners.run_starts import closest_name, split

ALL = ("", "all", "*", "everything")


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
    guess = f"/agent {said.verb} {near}{said.rest.removeprefix(name)}" if near else None
    problem = f'There is no agent "{name[:40]}"{hint}'
    return misunderstood_command("/agent", problem, guess=guess, about=said.verb)
