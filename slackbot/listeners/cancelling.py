"""Ending a run: by who started it, or by who may decide what it waits for."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncRespond

from agent import runs
from agent.domain.errors import NotFound, Refused
from agent.store import reads
from signoff.values import Person
from slackbot.cards import ACTION_CANCEL_RUN, parse_id
from slackbot.identity import seats_of
from slackbot.listeners.catch_all import OLD_BUTTON
from slackbot.listeners.doors import NOT_KNOWN, Doors
from slackbot.listeners.screens import tell
from slackbot.listeners.voting import person_of

PATH = "slack_list"
COMMAND = "slack_command"

CANCELLED = "The run is cancelled. What has run already stays done; what it asked for is withdrawn."
OVER = "This run is over already, so there was nothing to cancel."
NO_SUCH_RUN = "There is no such run, or it is not one that you may cancel."


def register(app: AsyncApp, doors: Doors) -> None:
    """The button in lists of runs."""

    @app.action(ACTION_CANCEL_RUN)
    async def pressed(ack: AsyncAck, body: dict[str, Any], respond: AsyncRespond) -> None:
        run_id = parse_id(body["actions"][0].get("value"))
        try:
            async with asyncio.timeout(doors.budget):
                told = await cancel(doors, person_of(body), run_id, PATH) if run_id else OLD_BUTTON
        except Refused as refused:
            told = refused.sentence
        except Exception:
            tell(doors, body, respond, NOT_KNOWN)
            raise
        await ack()
        if (body.get("view") or {}).get("type") == "home" and told == CANCELLED:
            doors.homes.touched(person_of(body))
        else:
            tell(doors, body, respond, told)


async def cancel(doors: Doors, person: Person, run_id: UUID, path: str) -> str:
    """End the run; the sentence that says what came of it. Raises Refused (recorded)."""
    async with doors.db.connection() as connection:
        paper = await reads.cancel_paper(connection, run_id)
    if paper is None or paper.team_id != doors.directory.own_team_id:
        return NO_SUCH_RUN
    # The requester needs no seat; everybody else may only be a reviewer.
    audiences = () if person == paper.requester else paper.audiences
    standing, seats = await asyncio.gather(
        doors.directory.identify(person), seats_of(doors.directory, person, audiences)
    )
    lost = seats.doubt if not (seats.roles or seats.channels) else None
    by = replace(standing, roles=frozenset(seats.roles), refusal=standing.refusal or lost)
    try:
        return CANCELLED if await runs.cancel(doors.db, run_id, by, seats.channels, path=path) else OVER
    except NotFound:
        return NO_SUCH_RUN
