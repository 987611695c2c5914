"""What `signoff demo --auto` observes in a scene."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

LOOK_SECONDS = 60.0
"""The service restarts in a few seconds, or in many on a busy machine."""
_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Check:
    """`seconds`: until the expectation was met."""

    what: str
    expected: Any
    observed: Any
    seconds: float

    @property
    def ok(self) -> bool:
        return bool(self.observed == self.expected)


class SceneFailed(Exception):
    """The rest of the scene is skipped. The failure is among the checks."""


@dataclass
class PlayedScene:
    """A scene of the guide, and what was observed in it."""

    title: str
    show: Callable[[Check], None]
    checks: list[Check] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return bool(self.checks) and all(check.ok for check in self.checks)

    async def see(
        self,
        what: str,
        expected: Any,
        look: Callable[[], Any | Awaitable[Any]],
        within: float = LOOK_SECONDS,
    ) -> None:
        """Poll until the observation matches, at most `within` seconds. Raises SceneFailed."""
        began = time.monotonic()
        while True:
            observed = look()
            observed = await observed if inspect.isawaitable(observed) else observed
            passed = time.monotonic() - began
            if observed == expected or passed > within:
                break
            await asyncio.sleep(_POLL_SECONDS)
        self.note(what, expected, observed, passed)

    def note(self, what: str, expected: Any, observed: Any, seconds: float = 0.0) -> None:
        """Record an observation. Raises SceneFailed."""
        check = Check(what, expected, observed, seconds)
        self.checks.append(check)
        self.show(check)
        if not check.ok:
            raise SceneFailed(what)
