"""A request by its id or by the program's own name, for callers who may see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Protocol, TypeVar
from uuid import UUID

from fastapi import Path

from agent.domain.api_keys import Principal, Scope
from agent.domain.errors import DOUBTFUL, Refusal, Refused
from agent.domain.request_view import RequestView
from agent.store import views
from agent.store.views import VoteContext
from signoff.values import REQUEST_NAME
from slackbot.reviewing.visibility import Visible, view_refusal
from slackbot.web.http.context import WebContext
from slackbot.web.http.problems import ProblemRaised

RequestId = Annotated[
    str,
    Path(
        pattern=REQUEST_NAME.pattern,
        max_length=REQUEST_NAME.most,
        description="The service's `id` of the request, or the asking program's `request_id`.",
        examples=["delete-42"],
    ),
]


async def find_visible_request(ctx: WebContext, principal: Principal, name: str) -> RequestView:
    """Our ids take precedence over callers' names.

    Raises Refused unless the caller may see the request, and ProblemRaised if they see several with that name.
    """
    if _is_id(name) and (view := await ctx.snapshots.get(UUID(name))) is not None:
        return await _visible(ctx, principal, [view])
    return await _visible(ctx, principal, await _read(ctx, principal, name, views.request_view))


async def find_vote_context(ctx: WebContext, principal: Principal, name: str) -> VoteContext:
    """As `find_visible_request`: who may not see a request does not learn that it exists."""
    return await _visible(ctx, principal, await _read(ctx, principal, name, views.vote_context))


class _OpenedByKey(Visible, Protocol):
    @property
    def principal(self) -> str: ...


_Found = TypeVar("_Found", bound=_OpenedByKey)


async def _read(
    ctx: WebContext,
    principal: Principal,
    name: str,
    read: Callable[[Any, UUID], Awaitable[_Found | None]],
) -> list[_Found]:
    """Several if programs have used the same name."""
    async with ctx.db.connection() as connection:
        if _is_id(name) and (known := await read(connection, UUID(name))) is not None:
            return [known]
        ids: Sequence[UUID] = []
        if (own := await views.client_request(connection, principal.name, name)) is not None:
            ids = [own.request_id]
        elif not principal.may(Scope.REQUEST):
            ids = await views.requests_by_client_id(connection, ctx.slack.team_id, name)
        found = [await read(connection, each) for each in ids]
    return [each for each in found if each is not None]


async def _visible(ctx: WebContext, principal: Principal, found: Sequence[_Found]) -> _Found:
    """The only one that the caller may see."""
    refusals = [await _refusal(ctx, principal, each) for each in found]
    seen = [each for each, refusal in zip(found, refusals, strict=True) if refusal is None]
    if len(seen) > 1:
        words = "Several programs have a request with this name; use its `id`."
        raise ProblemRaised(409, "ambiguous", "Ambiguous", words)
    if not seen:
        # Any other refusal would tell that the request exists.
        doubt = next((each for each in refusals if each in DOUBTFUL), None)
        raise Refused(doubt or Refusal.UNKNOWN_REQUEST)
    return seen[0]


def not_found() -> ProblemRaised:
    """The same for a missing request and one that this caller may not see."""
    return ProblemRaised(404, "not-found", "Not found", "There is no such request.")


async def _refusal(ctx: WebContext, principal: Principal, found: _OpenedByKey) -> Refusal | None:
    """Programs see their own requests; `read` keys all; `decide` keys what their owner may see."""
    if found.team_id != ctx.slack.team_id:
        return Refusal.UNKNOWN_REQUEST
    if found.principal == principal.name or principal.sees_all:
        return None
    if not principal.may(Scope.DECIDE) or principal.owner is None:
        return Refusal.UNKNOWN_REQUEST
    return await view_refusal(ctx.slack.directory, principal.owner, found)


def _is_id(name: str) -> bool:
    try:
        return str(UUID(name)) == name.lower()
    except ValueError:
        return False
