"""People see their own requests, their channels', and those that they may decide."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from agent.database.pools import Database
from agent.domain.errors import DOUBTFUL, Refusal, Refused
from agent.domain.people import CHANNEL
from agent.domain.request_view import RequestView
from agent.domain.run import RunView
from agent.store import views
from signoff.values import Person
from slackbot.slack_api.directory import Directory


async def view_refusal(directory: Directory, person: Person, view: Visible) -> Refusal | None:
    """In doubt a person may not view the request."""
    member = await directory.identify(person)
    if member.refusal is not None or view.team_id != directory.own_team_id:
        return member.refusal or Refusal.UNKNOWN_REQUEST
    if person == view.requester:
        return None
    standing = await directory.standing(person, [*view.approvers, CHANNEL], view.channel_id)
    if standing.roles or await directory.is_admin(person):
        return None
    return standing.refusal if standing.refusal in DOUBTFUL else Refusal.UNKNOWN_REQUEST


async def visible_request(
    db: Database, directory: Directory, person: Person, request_id: UUID
) -> RequestView:
    """A request with true values. Raises Refused unless this person may see it."""
    view = await db.read(views.request_view, request_id)
    refusal = await view_refusal(directory, person, view) if view else Refusal.UNKNOWN_REQUEST
    if view is None or refusal is not None:
        raise Refused(refusal or Refusal.UNKNOWN_REQUEST)
    return view


@dataclass(frozen=True, slots=True)
class ReviewerScope:
    """`roles`: the person's id and user groups. `doubt`: why a look-up failed."""

    roles: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    doubt: Refusal | None = None


class Audience(Protocol):
    """Approvers and channel, which determine visibility."""

    @property
    def approvers(self) -> tuple[str, ...]: ...
    @property
    def channel_id(self) -> str: ...


class Visible(Audience, Protocol):
    """What determines who may see one request."""

    @property
    def team_id(self) -> str: ...
    @property
    def requester(self) -> Person | None: ...


async def reviewer_scope(
    directory: Directory, person: Person, audiences: Sequence[tuple[Sequence[str], str]]
) -> ReviewerScope:
    """Doubtful memberships are left out."""
    standings = await directory.standing_in(person, audiences)
    roles = {role for each in standings for role in each.roles} - {CHANNEL}
    named = zip(audiences, standings, strict=True)
    channels = {channel_id for (_, channel_id), each in named if CHANNEL in each.roles}
    doubt = next((each.refusal for each in standings if each.refusal in DOUBTFUL), None)
    return ReviewerScope(tuple(sorted(roles)), tuple(sorted(channels)), doubt)


async def channels_of(directory: Directory, person: Person, channel_ids: Collection[str]) -> frozenset[str]:
    """Failed look-ups are left out."""
    ordered = sorted(channel_ids)
    standings = await directory.standing_in(person, [([CHANNEL], channel_id) for channel_id in ordered])
    return frozenset(channel_id for channel_id, each in zip(ordered, standings, strict=True) if each.roles)


async def visible_audiences(
    directory: Directory, person: Person, among: Sequence[Audience]
) -> frozenset[tuple[tuple[str, ...], str]]:
    """(approvers, channel id) whose requests this person may see; in doubt they may not."""
    audiences = list({(each.approvers, each.channel_id) for each in among})
    if await directory.is_admin(person):
        return frozenset(audiences)
    return await seen_audiences(directory, person, audiences)


async def seen_audiences(
    directory: Directory, person: Person, audiences: Collection[tuple[tuple[str, ...], str]]
) -> frozenset[tuple[tuple[str, ...], str]]:
    """As `visible_audiences`, without the rights of administrators."""
    ordered = list(audiences)
    asked = [([*approvers, CHANNEL], channel_id) for approvers, channel_id in ordered]
    standings = await directory.standing_in(person, asked)
    return frozenset(audience for audience, each in zip(ordered, standings, strict=True) if each.roles)


async def visible_runs(directory: Directory, person: Person, runs: Sequence[RunView]) -> list[RunView]:
    """This person's runs and those of their channels; all for an administrator."""
    if await directory.is_admin(person):
        return list(runs)
    named = {run.channel_id for run in runs if run.channel_id}
    channels = await channels_of(directory, person, named)
    return [run for run in runs if run.requester == person or run.channel_id in channels]
