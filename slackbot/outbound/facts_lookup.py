"""Post the arguments to an operator's URL, which answers with facts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from weakref import WeakValueDictionary

import httpx2
import structlog

from agent.domain.facts import MAX_BYTES, Facts, FactsLookup, FactsSource, read_facts
from agent.domain.webhook_urls import Network
from signoff.canonical import canonical_bytes, parse_arguments
from signoff.errors import MalformedArguments
from signoff.values import Action
from slackbot.outbound.signed_post import FAILURES, SignedPoster

TIMEOUT = 5.0
"""Seconds for one look-up, including name resolution."""

AT_ONCE, OF_ONE_KEY = 16, 4
"""Concurrent look-ups at one URL, and of one key there; others wait within their own time limit."""

REST = 15.0
"""Seconds that a URL is not asked after it has let a whole time limit pass."""

EVENT = "facts.wanted"

log = structlog.get_logger(__name__)

FAILED = Facts(failed=True, source=FactsSource.SIGNOFF)


class FactsLookups:
    """`allowed`: networks that are refused otherwise."""

    def __init__(self, secret: str | None, allowed: Sequence[Network] = ()) -> None:
        self._secret = secret
        self._poster = SignedPoster(allowed, seconds=TIMEOUT)
        self._turns: WeakValueDictionary[tuple[str, str | None], asyncio.Semaphore] = WeakValueDictionary()
        self._resting: dict[str, float] = {}

    async def close(self) -> None:
        await self._poster.close()

    async def look_up(
        self,
        lookup: FactsLookup,
        action: Action,
        agent: str,
        requester: str | None,
        principal: str,
        within: float = TIMEOUT,
    ) -> Facts:
        """Failed facts if the answer is unusable or late, or if the URL was too slow a moment ago."""
        try:
            async with asyncio.timeout(min(within, TIMEOUT)):
                async with (
                    self._turn(lookup.url, principal, OF_ONE_KEY),
                    self._turn(lookup.url, None, AT_ONCE),
                ):
                    self._check_awake(lookup.url)
                    # In a thread: the largest arguments and facts take some ten milliseconds.
                    content = {"tool": action.tool, "agent": agent, "requester": requester}
                    body = await asyncio.to_thread(_body, content, action)
                    answer = await self._timed_answer(lookup, body)
                return await asyncio.to_thread(_facts, answer)
        except (TimeoutError, httpx2.TimeoutException):
            why = "it did not answer in time"
        except MalformedArguments as error:
            why = f"its answer cannot be used: {error}"
        except FAILURES as error:
            why = str(error) or type(error).__name__
        log.warning("facts failed", action="facts.failed", tool=action.tool, url=lookup.url, error=why)
        return FAILED

    def _turn(self, url: str, principal: str | None, at_once: int) -> asyncio.Semaphore:
        return self._turns.setdefault((url, principal), asyncio.Semaphore(at_once))

    def _check_awake(self, url: str) -> None:
        """Raises ValueError while it rests. Afterwards one look-up tries it, and the others wait for how that ends."""
        until, now = self._resting.get(url), time.monotonic()
        if until is not None and now < until:
            raise ValueError("it did not answer in time a moment ago, so it is not asked now")
        if until is not None:
            self._resting[url] = now + TIMEOUT

    async def _timed_answer(self, lookup: FactsLookup, body: bytes) -> bytes:
        """Raises one of `FAILURES`."""
        began = time.monotonic()
        try:
            answer = await self._answer(lookup, body)
        except (asyncio.CancelledError, httpx2.TimeoutException):
            # A limit that was partly spent on waiting for a turn, or is a click's, says nothing about the URL.
            if (now := time.monotonic()) - began >= TIMEOUT * 0.9:
                self._resting[lookup.url] = now + REST
            raise
        except FAILURES:
            self._resting.pop(lookup.url, None)
            raise
        self._resting.pop(lookup.url, None)
        return answer

    async def _answer(self, lookup: FactsLookup, body: bytes) -> bytes:
        """Raises one of `FAILURES`."""
        if self._secret is None:
            raise ValueError("SIGNOFF_FACTS_SECRET is not set, so the request cannot be signed")
        headers = {"Signoff-Event": EVENT, "Accept-Encoding": "identity"}
        async with self._poster.post(lookup.url, self._secret, body, headers) as answer:
            if answer.status_code != httpx2.codes.OK:
                raise ValueError(f"it answered {answer.status_code}")
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                raise ValueError("its answer is compressed, although that was not requested")
            read = bytearray()
            async for piece in answer.aiter_raw():
                read += piece
                if len(read) > MAX_BYTES:
                    raise ValueError(f"its answer is larger than {MAX_BYTES // 1024} KiB")
            return bytes(read)


def _body(content: dict[str, str | None], action: Action) -> bytes:
    written = canonical_bytes(content).decode()
    return f'{written[:-1]},"arguments":{canonical_bytes(dict(action.arguments)).decode()}}}'.encode()


def _facts(answer: bytes) -> Facts:
    """Raises MalformedArguments."""
    return read_facts(parse_arguments(answer), FactsSource.SIGNOFF)
