"""Bodies as they arrive: JSON that can be read in one way only, or a problem that says where it cannot.

`APIRouter(route_class=StrictRoute)` is how a router asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute

from signoff.canonical import parse_json
from signoff.errors import MalformedArguments
from slackbot.web.idempotency import once
from slackbot.web.problems import problem


class BodyRefused(HTTPException):
    """A body that has no canonical form (RFC 8785). An HTTPException, because FastAPI lets only those pass."""

    def __init__(self, fault: MalformedArguments) -> None:
        super().__init__(422, str(fault))
        self.fault = fault


class StrictRequest(Request):
    """Reads JSON as `parse_json` does: no duplicate keys, no NaN, no integer that a double cannot hold."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            try:
                self._json = parse_json(await self.body())
            except MalformedArguments as fault:
                raise BodyRefused(fault) from None
        return self._json


class StrictRoute(APIRoute):
    """A route whose body is read so, and whose POST is made once for each `Idempotency-Key`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await once(StrictRequest(request.scope, request.receive), handle)

        return strictly


async def refused(_: Request, error: Exception) -> Response:
    """422 with the place of the fault; the value is not repeated, it may be a secret."""
    assert isinstance(error, BodyRefused)  # noqa: S101 - for the type checker; so registered
    fault = error.fault
    return problem(
        422, "invalid", "Invalid", str(fault), errors=[{"path": fault.path, "problem": fault.problem}]
    )
