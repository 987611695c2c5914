from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

LOOK_SECONDS = 10.0
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
class Scene:
    title: str
    show: Callable[[Check], None]
    checks: list[Check] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return bool(self.checks) and all(check.ok for check in self.checks)

    def note(self, what: str, expected: Any, observed: Any, seconds: float = 0.0) -> None:
        """Compare now. Raises SceneFailed."""
        check = Check(what, expected, observed, seconds)
        self.checks.append(check)
        self.show(check)
        if not check.ok:
            raise SceneFailed(what)

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
            if inspect.isawaitable(observed):
                observed = await observed
            passed = time.monotonic() - began
            if observed == expected or passed > within:
                self.note(what, expected, observed, passed)
                return
            await asyncio.sleep(_POLL_SECONDS)
