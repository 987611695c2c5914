"""Which request an address means, and whether the caller may know of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Protocol, TypeVar
from uuid import UUID

from fastapi import Path

from agent.domain.errors import Refused
from agent.domain.keys import Principal, Scope
from agent.domain.request import RequestView
from agent.store import reads
from agent.store.reads import BallotPaper
from slackbot.identity import objection_to_see
from slackbot.web.problems import ProblemRaised
from slackbot.web.site import Site

RequestId = Annotated[
    str,
    Path(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:@~-]*$",
        max_length=128,
        description="Our `id` of the request, or the `request_id` that its asker gave it.",
        examples=["delete-42"],
    ),
]


async def found(site: Site, principal: Principal, name: str) -> RequestView:
    """The request, if this caller may know of it. Raises as `named` does, and Refused."""
    view = await named(site, principal, name)
    await _may_see(site, principal, view)
    return view


async def named(site: Site, principal: Principal, name: str) -> RequestView:
    """The request, for whoever judges the caller next. Raises ProblemRaised (404; 409: several have that name).

    Our own ids come first: nobody can put a request in the place of another by naming it like that.
    """
    if _is_id(name) and (view := await site.views.get(UUID(name))) is not None:
        return _of_team(site, view)
    return await _read(site, principal, name, reads.request_view)


async def paper_named(site: Site, principal: Principal, name: str) -> BallotPaper:
    """What has to be known of the request before a vote. Raises as `named` does."""
    return await _read(site, principal, name, reads.ballot_paper)


class _OfTeam(Protocol):
    @property
    def team_id(self) -> str: ...


_Found = TypeVar("_Found", bound=_OfTeam)


async def _read(
    site: Site,
    principal: Principal,
    name: str,
    read: Callable[[Any, UUID], Awaitable[_Found | None]],
) -> _Found:
    async with site.db.connection() as connection:
        team_id = site.slack.team_id
        found = await read(connection, UUID(name)) if _is_id(name) else None
        if found is None and (own := await reads.opened_as(connection, principal.name, name)) is not None:
            found = await read(connection, own.request_id)
        if found is None and not principal.may(Scope.REQUEST):
            same = await reads.requests_named(connection, team_id, name)
            if len(same) > 1:
                words = "Several programs have a request of this name; use the `id` of the one that is meant."
                raise ProblemRaised(409, "ambiguous", "Ambiguous", words)
            found = await read(connection, same[0]) if same else None
    if found is None:
        raise missing()
    return _of_team(site, found)


def _of_team(site: Site, found: _Found) -> _Found:
    if found.team_id != site.slack.team_id:
        raise missing()
    return found


def missing() -> ProblemRaised:
    """There is none, or none that this caller may know of."""
    return ProblemRaised(404, "not-found", "Not found", "There is no such request.")


async def _may_see(site: Site, principal: Principal, view: RequestView) -> None:
    """Programs see their own; who reads, all; who decides, what their owner may see. Raises ProblemRaised, Refused."""
    if view.principal == principal.name or principal.may(Scope.READ) or principal.may(Scope.ADMIN):
        return
    if not principal.may(Scope.DECIDE) or principal.owner is None:
        raise missing()
    objection = await objection_to_see(site.slack.directory, principal.owner, view)
    if objection is not None:
        raise Refused(objection)


def _is_id(name: str) -> bool:
    try:
        return str(UUID(name)) == name.lower()
    except ValueError:
        return False
