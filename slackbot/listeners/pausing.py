"""`/agent pause` and `/agent resume`: administrators of the workspace stop agents at once, and let them go on."""

from __future__ import annotations

from agent import pausing
from agent.domain.errors import Refusal, Refused
from slackbot.cards import Card, misunderstood
from slackbot.listeners.doors import Doors
from slackbot.listeners.starting import nearest
from slackbot.listeners.typed import Typed, check_belongs
from slackbot.secrets import clean_text

ALL = ("", "all", "*", "everything")


async def pause(doors: Doors, said: Typed) -> Card:
    """Stop one agent, or all. Raises Refused for anybody who is no administrator."""
    return await _turn(doors, said, stop=True)


async def resume(doors: Doors, said: Typed) -> Card:
    """Let one agent go on, or end the stop of all. Raises Refused."""
    return await _turn(doors, said, stop=False)


async def _turn(doors: Doors, said: Typed, *, stop: bool) -> Card:
    await check_belongs(doors, said.person)
    if not await doors.directory.is_admin(said.person):
        raise Refused(Refusal.NOT_AN_ADMINISTRATOR)
    name, _, reason = said.rest.partition(" ")
    agent = None if name.lower() in ALL else name
    if agent is not None and doors.agents.find(agent) is None:
        return _unknown(doors, said, agent)
    if stop:
        told = (
            _PAUSED
            if await pausing.pause(doors.db, agent, by=said.person, reason=reason or None)
            else _WAS_PAUSED
        )
    else:
        told = (
            _RESUMED
            if await pausing.resume(doors.db, agent, by=said.person)
            else await _not_paused(doors, agent)
        )
    who = f"The agent {agent}" if agent else "Every agent"
    return Card(await clean_text(told.format(who=who)), [])


_PAUSED = (
    "⏸ {who} is paused: nothing begins any more, approved or not, until somebody resumes it. "
    "What is under way ends as it ends, and people can go on deciding."
)
_WAS_PAUSED = "⏸ {who} was paused already."
_RESUMED = "▶ {who} may go on; what was approved meanwhile begins now."


async def _not_paused(doors: Doors, agent: str | None) -> str:
    others = [each.agent or "every agent" for each in await pausing.in_force(doors.db)]
    hint = f" Paused now: {', '.join(others)}." if others else ""
    return "{who} was not paused." + hint.replace("{", "{{").replace("}", "}}")


def _unknown(doors: Doors, said: Typed, name: str) -> Card:
    near = nearest(name, [agent.name for agent in doors.agents])
    hint = f'; did you mean "{near}"?' if near else "; leave the name out for every agent."
    guess = f"/agent {said.verb} {near}{said.rest.removeprefix(name)}" if near else None
    problem = f'There is no agent "{name[:40]}"{hint}'
    return misunderstood("/agent", problem, guess=guess, about=said.verb)
