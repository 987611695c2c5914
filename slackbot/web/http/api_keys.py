"""Authenticate bearer keys (RFC 6750), and check the route's scope."""

# No `from __future__ import annotations`: FastAPI cannot resolve them on a callable instance
# (`RequireScope`).
from typing import Annotated

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from agent.domain.api_keys import Principal, Scope
from agent.usecases import api_keys
from slackbot.web.http.context import web_context
from slackbot.web.http.problems import ProblemRaised

bearer = HTTPBearer(auto_error=False, description="A key created with `signoff keys create`.")


async def caller(
    request: Request, presented: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> Principal:
    """Raises ProblemRaised (401) without a valid key, and TooManyCalls."""
    known: Principal | None = getattr(request.state, "principal", None)
    if known is not None:
        return known
    if presented is None:
        raise _unauthorised("This needs a key: send `Authorization: Bearer signoff_…`.", None)
    principal = await api_keys.authenticate(web_context(request).db, presented.credentials)
    if principal is None:
        raise _unauthorised("This key is not valid: mistyped, revoked or expired.", "invalid_token")
    request.state.principal = principal
    request.state.known = principal.name
    return principal


class RequireScope:
    """A dependency: the caller, with at least one of these scopes. Raises ProblemRaised (403)."""

    def __init__(self, *scopes: Scope) -> None:
        self.scopes = scopes

    async def __call__(self, known: Annotated[Principal, Depends(caller)]) -> Principal:
        if known.scopes.isdisjoint(self.scopes):
            raise ProblemRaised(
                403,
                "scope-missing",
                "Scope missing",
                f"The key {known.key} does not have the scope {' or '.join(self.scopes)}; "
                f"`signoff keys create NAME --scope {self.scopes[0]}` creates one that has it.",
                headers={
                    "WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{" ".join(self.scopes)}"'
                },
            )
        return known

    async def admit(self, request: Request) -> Principal:
        """Authenticate before the route runs. Raises as `caller` does."""
        return await self(await caller(request, await bearer(request)))


def needed(dependant: Dependant) -> RequireScope:
    """The scope that a route requires. Raises TypeError for a route without one."""
    for each in dependant.dependencies:
        if isinstance(each.call, RequireScope):
            return each.call
    raise TypeError(f"{dependant.path} needs no key")


def _unauthorised(words: str, error: str | None) -> ProblemRaised:
    challenge = f'Bearer error="{error}"' if error else "Bearer"
    return ProblemRaised(401, "unauthorised", "Unauthorised", words, headers={"WWW-Authenticate": challenge})


Asker = Annotated[Principal, Depends(RequireScope(Scope.REQUEST))]
Decider = Annotated[Principal, Depends(RequireScope(Scope.DECIDE))]
Reader = Annotated[Principal, Depends(RequireScope(Scope.READ, Scope.ADMIN, Scope.REQUEST, Scope.DECIDE))]
Lister = Annotated[Principal, Depends(RequireScope(Scope.READ, Scope.ADMIN, Scope.REQUEST))]
Executor = Annotated[Principal, Depends(RequireScope(Scope.EXECUTE))]
Admin = Annotated[Principal, Depends(RequireScope(Scope.ADMIN))]
