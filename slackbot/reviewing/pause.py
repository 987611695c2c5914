"""Pause and resume agents, as workspace administrators may."""

from __future__ import annotations

from agent.database.pools import Database
from agent.domain.errors import Refusal, Refused
from agent.usecases import pause as stop_switch
from signoff.values import Person
from slackbot.reviewing.members import check_member
from slackbot.slack_api.directory import Directory


async def pause(
    db: Database, directory: Directory, person: Person, agent: str | None, reason: str | None
) -> bool:
    """Stop this agent, or all (None). False: already stopped. Raises Refused."""
    await _check_administrator(directory, person)
    return await stop_switch.pause(db, agent, by=person, reason=reason)


async def resume(db: Database, directory: Directory, person: Person, agent: str | None) -> bool:
    """End this stop. False: there was none. Raises Refused."""
    await _check_administrator(directory, person)
    return await stop_switch.resume(db, agent, by=person)


async def _check_administrator(directory: Directory, person: Person) -> None:
    await check_member(directory, person)
    if not await directory.is_admin(person):
        raise Refused(Refusal.NOT_AN_ADMINISTRATOR)
