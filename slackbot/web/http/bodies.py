"""Bodies and parameters, read only after authentication: `APIRouter(route_class=StrictRoute)`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException

from signoff.canonical import MAX_BYTES, parse_json
from signoff.errors import MalformedArguments
from signoff.storable_text import unstorable
from slackbot.masking import work_for
from slackbot.web.http.api_keys import needed
from slackbot.web.http.idempotency import once
from slackbot.web.http.problems import ProblemRaised, invalid

T = TypeVar("T")

MAX_BODY_BYTES = 2**20
"""Larger data belongs in a store, with its address in the request. Action arguments have their own limit
(`signoff.canonical`)."""

MAX_VALUES = 20_000
"""Objects, arrays and members of a body. Parsing more would block other callers."""

AT_ONCE = 16_384
"""Bytes parsed in the event loop: about a millisecond."""

_threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="bodies")

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_EMPTY = re.compile(rb"\[\s*+\]|\{\s*+\}")


class StrictRequest(Request):
    """Parses JSON with `read_json`: no duplicate keys, no NaN, no integer that a double cannot hold."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            body = await self.body()
            try:
                self._json = await by_size(len(body), lambda: read_json(body, MAX_BODY_BYTES))
            except MalformedArguments as fault:
                path = "body" if fault.path == "$" else fault.path
                raise invalid((path, fault.problem)) from None
        return self._json


class StrictRoute(APIRoute):
    """Checks key and scope before the body, which FastAPI does not, and makes POST idempotent."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle, caller = super().get_route_handler(), needed(self.dependant)

        async def strictly(request: Request) -> Response:
            principal = await caller.admit(request)
            with work_for(principal.name):
                return await once(StrictRequest(request.scope, request.receive), principal, handle)

        return strictly


async def by_size(size: int, work: Callable[[], T]) -> T:
    """Use a thread for large bodies, which would block the loop."""
    if size <= AT_ONCE:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_threads, work)


def read_json(text: str | bytes, most_bytes: int = MAX_BYTES) -> Any:
    """`parse_json` for untrusted bodies. Raises MalformedArguments, also for more than MAX_VALUES values."""
    encoded = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(encoded) <= most_bytes and _has_too_many_values(encoded):
        raise MalformedArguments("$", f"has more than {MAX_VALUES:,} values")
    return parse_json(encoded, most_bytes)


def _has_too_many_values(encoded: bytes) -> bool:
    """Count without parsing: strings may make it overcount, never undercount."""
    if _delimiters(encoded) < MAX_VALUES:
        return False
    bare = _STRING.sub(b"0", encoded)
    return 1 + _delimiters(bare) - len(_EMPTY.findall(bare)) > MAX_VALUES


def _delimiters(encoded: bytes) -> int:
    return encoded.count(b",") + encoded.count(b"[") + encoded.count(b"{")


async def read_form(request: Request, most_fields: int) -> FormData:
    """Files are refused. Raises ProblemRaised if the form cannot be read or stored."""
    try:
        form = await request.form(max_files=0, max_fields=most_fields)
    except ProblemRaised:
        raise
    except HTTPException as error:
        raise invalid(("body", f"cannot be read: {error.detail}")) from None
    except UnicodeError:  # the body's `charset` cannot decode it
        raise invalid(("body", "cannot be read in its charset")) from None
    _check_storable((name, each) for name, value in form.multi_items() for each in (name, value))
    return form


async def refuse_unstorable(request: Request) -> None:
    """Raise ProblemRaised for a parameter or header that cannot be stored."""
    _check_storable((name, str(value)) for name, value in request.path_params.items())
    _check_storable(
        (name, each) for name, value in request.query_params.multi_items() for each in (name, value)
    )
    _check_storable(request.headers.items())


def _check_storable(texts: Iterable[tuple[str, Any]]) -> None:
    """Raise ProblemRaised (422) for the first text that PostgreSQL cannot store."""
    for name, text in texts:
        if isinstance(text, str) and (problem := unstorable(text)) is not None:
            raise invalid((name.encode(errors="replace").decode(), problem))
