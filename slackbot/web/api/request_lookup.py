from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Protocol, TypeVar
from uuid import UUID

from fastapi import Path

from agent.domain.api_keys import Principal, Scope
from agent.domain.errors import Refused
from agent.domain.request_view import RequestView
from agent.store import views
from agent.store.views import VoteContext
from slackbot.reviewing.visibility import view_refusal
from slackbot.web.http.context import WebContext
from slackbot.web.http.problems import ProblemRaised

RequestId = Annotated[
    str,
    Path(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:@~-]*$",
        max_length=128,
        description="The service's `id` of the request, or the asking program's `request_id`.",
        examples=["delete-42"],
    ),
]


async def find_visible_request(ctx: WebContext, principal: Principal, name: str) -> RequestView:
    """Raises Refused unless the caller may see the request, and as `find_request`."""
    view = await find_request(ctx, principal, name)
    await _may_see(ctx, principal, view)
    return view


async def find_request(ctx: WebContext, principal: Principal, name: str) -> RequestView:
    """Our ids take precedence over callers' names. Raises ProblemRaised (404; 409: several have that name)."""
    if _is_id(name) and (view := await ctx.snapshots.get(UUID(name))) is not None:
        return _of_team(ctx, view)
    return await _read(ctx, principal, name, views.request_view)


async def find_vote_context(ctx: WebContext, principal: Principal, name: str) -> VoteContext:
    """Raises what `find_request` raises."""
    return await _read(ctx, principal, name, views.vote_context)


class _OfTeam(Protocol):
    @property
    def team_id(self) -> str: ...


_Found = TypeVar("_Found", bound=_OfTeam)


async def _read(
    ctx: WebContext,
    principal: Principal,
    name: str,
    read: Callable[[Any, UUID], Awaitable[_Found | None]],
) -> _Found:
    async with ctx.db.connection() as connection:
        team_id = ctx.slack.team_id
        found = await read(connection, UUID(name)) if _is_id(name) else None
        if (
            found is None
            and (own := await views.client_request(connection, principal.name, name)) is not None
        ):
            found = await read(connection, own.request_id)
        if found is None and not principal.may(Scope.REQUEST):
            same = await views.requests_by_client_id(connection, team_id, name)
            if len(same) > 1:
                words = "Several programs have a request with this name; use its `id`."
                raise ProblemRaised(409, "ambiguous", "Ambiguous", words)
            found = await read(connection, same[0]) if same else None
    if found is None:
        raise not_found()
    return _of_team(ctx, found)


def _of_team(ctx: WebContext, found: _Found) -> _Found:
    if found.team_id != ctx.slack.team_id:
        raise not_found()
    return found


def not_found() -> ProblemRaised:
    """The same for a missing request and one that this caller may not see."""
    return ProblemRaised(404, "not-found", "Not found", "There is no such request.")


async def _may_see(ctx: WebContext, principal: Principal, view: RequestView) -> None:
    """Programs see their own requests; `read` keys all; `decide` keys what their owner may see.

    Raises ProblemRaised and Refused.
    """
    if view.principal == principal.name or principal.sees_all:
        return
    if not principal.may(Scope.DECIDE) or principal.owner is None:
        raise not_found()
    objection = await view_refusal(ctx.slack.directory, principal.owner, view)
    if objection is not None:
        raise Refused(objection)


def _is_id(name: str) -> bool:
    try:
        return str(UUID(name)) == name.lower()
    except ValueError:
        return False
