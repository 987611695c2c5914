"""The two clients, blocking and for asyncio, which drive the same operations."""

from __future__ import annotations

import asyncio
import inspect
import ssl
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import cache, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx2

from signoff.client import attempts, many, operations
from signoff.client.effects import (
    CallFunction,
    HttpRequest,
    HttpResponse,
    LookUpFacts,
    NoResponse,
    Operation,
    Sleep,
)
from signoff.client.facts import FactsFunction
from signoff.client.guarded_function import GuardedFunction, TextOrFunction
from signoff.durations import Duration
from signoff.sessions import checked_session

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_CONNECT = 5.0


def _options(url: str, key: str) -> dict[str, Any]:
    """Raises ValueError."""
    if not url.startswith(("https://", "http://")):
        raise ValueError(f"the address of Signoff must begin with https:// or http://, not {url!r}")
    if not key or not key.isascii() or not key.isprintable():
        raise ValueError("the key is empty or not a valid key; `signoff keys create` makes one")
    headers = {"Authorization": f"Bearer {key}", "User-Agent": "signoff-client"}
    return {
        "base_url": url.rstrip("/"),
        "headers": headers,
        "follow_redirects": False,
        "verify": _certificates(),
    }


@cache
def _certificates() -> ssl.SSLContext:
    """Shared by all clients: loading certificates takes longer than most requests."""
    return httpx2.create_ssl_context()


def _request(call: HttpRequest) -> dict[str, Any]:
    body = {} if call.json is None else {"json": call.json}
    timeout = httpx2.Timeout(call.seconds, connect=min(_CONNECT, call.seconds))
    return {"params": dict(call.query), "headers": dict(call.headers), "timeout": timeout, **body}


def _answer(response: httpx2.Response) -> HttpResponse:
    try:
        content = response.json() if response.content else None
    except ValueError:
        content = None
    return HttpResponse(
        response.status_code, {name.lower(): value for name, value in response.headers.items()}, content
    )


def _unreached(error: httpx2.HTTPError, url: httpx2.URL) -> NoResponse:
    return NoResponse(f"{url.scheme}://{url.netloc.decode()}: {str(error) or type(error).__name__}")


def _check_parentheses(action: object) -> None:
    if callable(action):
        name = getattr(action, "__name__", "function")
        raise TypeError(f"write @client.requires_approval() above {name}, with parentheses")


def _blocking(
    operation: Callable[P, Operation[T]], *, in_session: bool = False
) -> Callable[Concatenate[ApprovalClient, P], T]:
    @wraps(operation)
    def method(self: ApprovalClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if in_session and kwargs.get("session") is None:
            kwargs["session"] = self._session
        return self.do(operation(*args, **kwargs))

    return method


def _awaited(
    operation: Callable[P, Operation[T]], *, in_session: bool = False
) -> Callable[Concatenate[AsyncApprovalClient, P], Coroutine[Any, Any, T]]:
    @wraps(operation)
    async def method(self: AsyncApprovalClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if in_session and kwargs.get("session") is None:
            kwargs["session"] = self._session
        return await self.do(operation(*args, **kwargs))

    return method


class ApprovalClient:
    """Blocking client of the Signoff service at `url`, with a key of scope `request`.

    `session` is that of questions that name none themselves. Thread-safe, and a context manager. Raises ValueError for
    an invalid address, key or session.
    """

    def __init__(self, url: str, key: str, *, session: str | None = None) -> None:
        self._http = httpx2.Client(**_options(url, key))
        self._session = checked_session(session)

    ask = _blocking(operations.ask, in_session=True)
    ask_for = _blocking(operations.ask_for, in_session=True)
    submit = _blocking(operations.submit, in_session=True)
    submit_many = _blocking(many.submit_many, in_session=True)
    ask_many = _blocking(many.ask_many, in_session=True)
    claim = _blocking(attempts.claim)
    report = _blocking(attempts.report)
    withdraw = _blocking(operations.withdraw)
    get = _blocking(operations.get)
    pending = _blocking(operations.pending)

    def requires_approval(
        self,
        action: str | None = None,
        *,
        timeout: Duration | None = None,
        key: TextOrFunction = None,
        description: TextOrFunction = None,
        context: Any = None,
        requester: str | None = None,
        lease: Duration | None = None,
        facts: FactsFunction | None = None,
        session: TextOrFunction = None,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Decorator: each call waits for a decision, then runs with the decided arguments.

        `action` defaults to the function's name. `key`, `session`, `description` and `context` may be functions of its
        arguments; `facts` is one. Raises what `ask` raises.
        """
        _check_parentheses(action)
        limit = operations.WaitLimit.of(timeout)

        def decorate(function: Callable[P, R]) -> Callable[P, R]:
            if inspect.iscoroutinefunction(function):
                raise TypeError(f"{function.__name__} is async: use AsyncApprovalClient")
            name = action or function.__name__
            own = self._session if session is None else session
            guard = GuardedFunction(
                function, name, limit, key, description, context, requester, lease, facts, own
            )

            @wraps(function)
            def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
                result: R = self.do(guard.call(args, kwargs))
                return result

            return guarded

        return decorate

    def do(self, operation: Operation[T]) -> T:
        try:
            effect = next(operation)
            while True:
                if isinstance(effect, Sleep):
                    time.sleep(effect.seconds)
                    effect = operation.send(None)
                    continue
                try:
                    came = self._perform(effect)
                except BaseException as error:
                    effect = operation.throw(error)
                else:
                    effect = operation.send(came)
        except StopIteration as end:
            result: T = end.value
            return result

    def _perform(self, effect: HttpRequest | CallFunction | LookUpFacts) -> Any:
        if isinstance(effect, HttpRequest):
            return self._call(effect)
        came = effect.function()
        if isinstance(effect, LookUpFacts) and inspect.iscoroutine(came):
            came.close()
            raise TypeError("the facts function is async: use AsyncApprovalClient")
        return came

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, call: HttpRequest) -> HttpResponse:
        try:
            return _answer(self._http.request(call.method, call.path, **_request(call)))
        except httpx2.HTTPError as error:
            raise _unreached(error, self._http.base_url) from error


class AsyncApprovalClient:
    """`ApprovalClient` for asyncio: every operation is awaited."""

    def __init__(self, url: str, key: str, *, session: str | None = None) -> None:
        self._http = httpx2.AsyncClient(**_options(url, key))
        self._session = checked_session(session)

    ask = _awaited(operations.ask, in_session=True)
    ask_for = _awaited(operations.ask_for, in_session=True)
    submit = _awaited(operations.submit, in_session=True)
    submit_many = _awaited(many.submit_many, in_session=True)
    ask_many = _awaited(many.ask_many, in_session=True)
    claim = _awaited(attempts.claim)
    report = _awaited(attempts.report)
    withdraw = _awaited(operations.withdraw)
    get = _awaited(operations.get)
    pending = _awaited(operations.pending)

    def requires_approval(
        self,
        action: str | None = None,
        *,
        timeout: Duration | None = None,
        key: TextOrFunction = None,
        description: TextOrFunction = None,
        context: Any = None,
        requester: str | None = None,
        lease: Duration | None = None,
        facts: FactsFunction | None = None,
        session: TextOrFunction = None,
    ) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Coroutine[Any, Any, R]]]:
        """Decorator for async functions; see `ApprovalClient.requires_approval`."""
        _check_parentheses(action)
        limit = operations.WaitLimit.of(timeout)

        def decorate(function: Callable[P, Awaitable[R]]) -> Callable[P, Coroutine[Any, Any, R]]:
            if not inspect.iscoroutinefunction(function):
                raise TypeError(f"{function.__name__} is not async: use ApprovalClient")
            name = action or function.__name__
            own = self._session if session is None else session
            guard = GuardedFunction(
                function, name, limit, key, description, context, requester, lease, facts, own
            )

            @wraps(function)
            async def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
                result: R = await self.do(guard.call(args, kwargs))
                return result

            return guarded

        return decorate

    async def do(self, operation: Operation[T]) -> T:
        try:
            effect = next(operation)
            while True:
                if isinstance(effect, Sleep):
                    await asyncio.sleep(effect.seconds)
                    effect = operation.send(None)
                    continue
                try:
                    came = await self._perform(effect)
                except BaseException as error:
                    effect = operation.throw(error)
                else:
                    effect = operation.send(came)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _perform(self, effect: HttpRequest | CallFunction | LookUpFacts) -> Any:
        if isinstance(effect, HttpRequest):
            return await self._call(effect)
        if isinstance(effect, CallFunction):
            return await effect.function()
        came = await asyncio.to_thread(effect.function)  # may be async, or block on a database
        return await came if inspect.isawaitable(came) else came

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _call(self, call: HttpRequest) -> HttpResponse:
        try:
            return _answer(await self._http.request(call.method, call.path, **_request(call)))
        except httpx2.HTTPError as error:
            raise _unreached(error, self._http.base_url) from error
