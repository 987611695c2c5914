"""`/agent` and `/approvals`: what was typed becomes an answer that only its writer sees."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from slack_bolt.async_app import AsyncAck, AsyncApp

from agent.domain.people import Person
from agent.domain.request import RequestLine, RequestView
from agent.store import reads
from slackbot.cards import AgentLine, Card, agent_list, request_details, request_list, run_list, usage
from slackbot.listeners.doors import Doors
from slackbot.listeners.starting import may_not, nearest, split, start, unescaped

log = logging.getLogger(__name__)

PAGE = 20
NOT_KNOWN_STARTED = (
    "Something took too long or failed, and it is not known whether anything was started. "
    "Please look at `/agent status` before trying again."
)
FAILED = "Something took too long or failed. Nothing was changed; please try again."
NO_SUCH_RUN = "No run has an id that begins like this."
NO_SUCH_REQUEST = "No request that you may see has an id that begins like this."
AMBIGUOUS = "Several ids begin like this; please give more of it."
NONE_IN_YOUR_CHANNELS = "Nothing waits for review in the channels that you are in."


@dataclass(frozen=True, slots=True)
class Typed:
    """A command as it was typed: `verb` is its first word, `rest` what follows."""

    person: Person
    channel_id: str
    trigger_id: str
    verb: str
    rest: str

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> Typed:
        """From a slash command's form. Slack has its `team_id` as the team that the person typed it in."""
        verb, rest = split(unescaped(body.get("text") or ""))
        person = Person(body["team_id"], body["user_id"])
        return cls(person, body["channel_id"], body["trigger_id"], verb.lower(), rest)


Verb = Callable[[Doors, Typed], Awaitable[Card]]


def register(app: AsyncApp, doors: Doors) -> None:
    """Both commands."""

    def command(name: str, verbs: Mapping[str, Verb], bare: Verb) -> None:
        @app.command(name)
        async def typed(ack: AsyncAck, body: dict[str, Any]) -> None:
            said = Typed.read(body)
            act = verbs.get(said.verb) if said.verb else bare
            card = await _safely(doors, said, act) if act else _not_understood(name, said, verbs, doors)
            await ack(text=card.text, blocks=card.blocks or None, response_type="ephemeral")

    async def help_agent(_: Doors, __: Typed) -> Card:
        return usage("/agent")

    async def help_approvals(_: Doors, __: Typed) -> Card:
        return usage("/approvals")

    agent: dict[str, Verb] = {"run": _run, "list": _list, "status": _status, "help": help_agent}
    command("/agent", agent, help_agent)
    approvals: dict[str, Verb] = {"list": _waiting, "show": _show, "help": help_approvals}
    command("/approvals", approvals, _waiting)


async def _safely(doors: Doors, said: Typed, act: Verb) -> Card:
    """The answer, or a true word about its failure: an unanswered command shows only an error code."""
    try:
        async with asyncio.timeout(doors.budget):
            return await act(doors, said)
    except Exception as error:
        log.exception("a command failed", extra={"action": "listener_failed", "kind": type(error).__name__})
        return Card(NOT_KNOWN_STARTED if act is _run else FAILED, [])


def _not_understood(name: str, said: Typed, verbs: Mapping[str, Verb], doors: Doors) -> Card:
    if name == "/agent" and doors.agents.find(said.verb):
        return usage(name, f'To start an agent, type "/agent run {said.verb} …".')
    guess = nearest(said.verb, verbs)
    hint = f'; did you mean "{name} {guess}"?' if guess else "."
    return usage(name, f'There is no "{name} {said.verb[:40]}"{hint}')


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
    team_id = doors.directory.own_team_id
    if problem := await _stranger(doors, said.person):
        return problem
    async with doors.db.connection() as connection:
        if not said.rest:
            found = await reads.recent_runs(connection, team_id=team_id, limit=PAGE + 1)
            return run_list(found[:PAGE], more=len(found) > PAGE)
        ids = await reads.runs_like(connection, team_id=team_id, id_prefix=said.rest)
        run = await reads.run_view(connection, ids[0]) if len(ids) == 1 else None
    return run_list([run]) if run else Card(AMBIGUOUS if ids else NO_SUCH_RUN, [])


async def _waiting(doors: Doors, said: Typed) -> Card:
    """What waits in channels that the person is in, and what waits on the person's own behalf."""
    if problem := await _stranger(doors, said.person):
        return problem
    async with doors.db.connection() as connection:
        lines = await reads.waiting_requests(
            connection, team_id=doors.directory.own_team_id, limit=5 * PAGE + 1
        )
    mine = await _channels_of(doors, said.person, {line.channel_id for line in lines})
    seen = [line for line in lines if line.channel_id in mine or line.requester == said.person]
    if lines and not seen:
        return Card(NONE_IN_YOUR_CHANNELS, [])
    return request_list(_newest_last(seen), more=len(seen) > PAGE or len(lines) > 5 * PAGE)


async def _show(doors: Doors, said: Typed) -> Card:
    if not said.rest:
        return usage("/approvals", "Which one? Its id is at the end of its line in /approvals.")
    if problem := await _stranger(doors, said.person):
        return problem
    async with doors.db.connection() as connection:
        ids: list[UUID] = await reads.requests_like(
            connection, team_id=doors.directory.own_team_id, id_prefix=said.rest
        )
        view = await reads.request_view(connection, ids[0]) if len(ids) == 1 else None
    if len(ids) > 1:
        return Card(AMBIGUOUS, [])
    if view is None or not await _may_see(doors, said.person, view):
        return Card(NO_SUCH_REQUEST, [])
    return request_details(view, names=await doors.directory.names(view.approvers))


async def _may_see(doors: Doors, person: Person, view: RequestView) -> bool:
    """The requester, the reviewers and who reads the card's channel anyway."""
    if person == view.requester:
        return True
    standing = await doors.directory.standing(person, [*view.approvers, "channel"], view.channel_id)
    return bool(standing.roles)


async def _channels_of(doors: Doors, person: Person, channel_ids: set[str]) -> set[str]:
    ordered = sorted(channel_ids)
    asked = (doors.directory.standing(person, ["channel"], channel_id) for channel_id in ordered)
    standings = await asyncio.gather(*asked)
    return {channel_id for channel_id, each in zip(ordered, standings, strict=True) if each.roles}


async def _stranger(doors: Doors, person: Person) -> Card | None:
    """What somebody is told who does not belong here."""
    standing = await doors.directory.identify(person)
    return Card(may_not(standing.refusal), []) if standing.refusal else None


def _newest_last(lines: list[RequestLine]) -> list[RequestLine]:
    return sorted(lines[:PAGE], key=lambda line: line.created_at)
