"""Who calls: the bearer key of a call, recognised, with the scope that a route needs (RFC 6750)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from agent import keys
from agent.domain.keys import Principal, Scope
from slackbot.web.problems import ProblemRaised
from slackbot.web.site import site_of

bearer = HTTPBearer(auto_error=False, description="A key made with `signoff keys create`.")


async def caller(
    request: Request, presented: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> Principal:
    """Whose call this is. Raises ProblemRaised (401) without a valid key, TooManyCalls."""
    known: Principal | None = getattr(request.state, "principal", None)
    if known is not None:
        return known
    if presented is None:
        raise _unauthorised("This needs a key: send `Authorization: Bearer signoff_…`.", None)
    principal = await keys.recognise(site_of(request).db, presented.credentials)
    if principal is None:
        raise _unauthorised("This key is not valid: mistyped, revoked or expired.", "invalid_token")
    request.state.principal = principal
    return principal


async def recognised(request: Request) -> Principal:
    """The same before any route is asked; the route then has it from here. Raises as `caller` does."""
    return await caller(request, await bearer(request))


def needs(*scopes: Scope) -> Callable[..., Awaitable[Principal]]:
    """A dependency: the caller, who has at least one of these scopes. Raises ProblemRaised (403)."""

    async def scoped(known: Annotated[Principal, Depends(caller)]) -> Principal:
        if known.scopes.isdisjoint(scopes):
            named = " or ".join(scopes)
            raise ProblemRaised(
                403,
                "scope-missing",
                "Scope missing",
                f"The key {known.key} does not have the scope {named}.",
                headers={
                    "WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{" ".join(scopes)}"'
                },
            )
        return known

    return scoped


def _unauthorised(words: str, error: str | None) -> ProblemRaised:
    challenge = f'Bearer error="{error}"' if error else "Bearer"
    return ProblemRaised(401, "unauthorised", "Unauthorised", words, headers={"WWW-Authenticate": challenge})


Asker = Annotated[Principal, Depends(needs(Scope.REQUEST))]
Decider = Annotated[Principal, Depends(needs(Scope.DECIDE))]
Reader = Annotated[Principal, Depends(needs(Scope.READ, Scope.ADMIN, Scope.REQUEST, Scope.DECIDE))]
Admin = Annotated[Principal, Depends(needs(Scope.ADMIN))]
