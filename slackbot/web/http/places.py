"""Places of waits and streams among the connections that the limit of open files allows.

Each waiting call holds a connection. A key's share is twice the free places, so that one key gets two thirds of all
places, two keys two fifths each, and some stay free however many keys there are.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from types import TracebackType
from typing import Self

from fastapi import Request, Response
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from slackbot.web.http.metrics import WAITS_CUT_SHORT
from slackbot.web.http.problems import ProblemRaised, retry_later
from slackbot.web.http.shares import SHARE

SOONEST, LATEST = 5.0, 60.0
"""Seconds after which a call that was cut short may come again."""

APART = 0.1
"""Seconds between two such calls of a key: 600 a minute, the default rate of a key."""


class Places:
    """``most``: connections that the service may have."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._held: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()
        self._turns: dict[str, float] = {}

    @property
    def held(self) -> int:
        return self._held.total()

    def has_room(self, name: str) -> bool:
        return self._held[name] < SHARE * (self.most - self.held)

    def place(self, request: Request, name: str) -> HeldPlace:
        return HeldPlace(self, request, name)

    def stream(self, request: Request, name: str, most: int, words: str) -> StreamPlace:
        """Raises ProblemRaised (429) if none is left; ``words`` name who has ``most`` streams."""
        if self._streams[name] >= most:
            raise _too_many(f"{words} has {most} open streams; close one of them.")
        place = HeldPlace(self, request, name).take()
        if not place.granted:
            raise _too_many(f"{words} holds its share of the connections; close some of them.")
        return StreamPlace(place, self._streams)

    def seconds_until_turn(self, name: str) -> int:
        now = time.monotonic()
        at = min(max(now + SOONEST, self._turns.get(name, 0.0) + APART), now + LATEST)
        self._turns[name] = at
        return math.ceil(at - now)

    def _add(self, name: str, number: int) -> None:
        self._held[name] += number
        if not self._held[name]:
            del self._held[name]


def _too_many(words: str) -> ProblemRaised:
    return retry_later("too-many-streams", "Too many streams", words, 15, status=429)


class HeldPlace:
    """One call's place, if its key has room and its caller is there: ``granted``.

    Given back when the call or its connection ends.
    """

    __slots__ = ("_name", "_places", "_state", "granted")

    def __init__(self, places: Places, request: Request, name: str) -> None:
        self._places, self._state, self._name = places, request.scope["state"], name
        self.granted = False

    def take(self) -> Self:
        if not self._state.get("left") and self._places.has_room(self._name):
            self._places._add(self._name, 1)  # noqa: SLF001 - its own
            self._state["place"] = self
            self.granted = True
        return self

    def give_back(self) -> None:
        """May be called again."""
        if self._state.get("place") is self:
            self._state["place"] = None
            self._places._add(self._name, -1)  # noqa: SLF001 - its own

    def __enter__(self) -> Self:
        return self.take()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_back()

    def cut_short(self, response: Response, *, stopping: bool) -> None:
        """Tell a caller who still has to wait when to come again, on another connection."""
        if self.granted and not stopping:
            return
        WAITS_CUT_SHORT.inc()
        seconds = 1 if self.granted else self._places.seconds_until_turn(self._name)
        response.headers["Retry-After"] = str(seconds)
        response.headers["Connection"] = "close"


class StreamPlace:
    """A stream's place, counted among its owner's connections and streams until it is given back."""

    def __init__(self, place: HeldPlace, streams: Counter[str]) -> None:
        self._place, self._streams = place, streams
        self._name = place._name  # noqa: SLF001 - its own
        streams[self._name] += 1

    def give_back(self) -> None:
        self._place.give_back()
        self._streams[self._name] -= 1
        if not self._streams[self._name]:
            del self._streams[self._name]


class HeldStream(StreamingResponse):
    """A response of server-sent events that gives its place back when it ends, even if it never began."""

    media_type = "text/event-stream"
    place: StreamPlace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Release the place here: the body generator never starts if the caller has already disconnected."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.place.give_back()
