"""Slack's rate limits as token buckets."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

TIERS = {1: 1, 2: 20, 3: 50, 4: 100}
"""Calls per minute for each tier (Slack, "Rate limits"); all may come at once."""
CONNECTIONS_PER_MINUTE = 30
POSTS_PER_MINUTE = 300
"""For the whole workspace; Slack says "several hundred"."""


@dataclass
class Bucket:
    """A token bucket; `rate` is tokens a second."""

    capacity: float
    rate: float
    level: float
    at: float

    def take(self, now: float) -> float:
        """Return 0, or the seconds until a token is available."""
        self.level = min(self.capacity, self.level + (now - self.at) * self.rate)
        self.at = now
        if self.level >= 1:
            self.level -= 1
            return 0.0
        return (1 - self.level) / self.rate


@dataclass
class RateLimits:
    """`burst` posts to one channel may come at once."""

    enabled: bool = True
    burst: int = 5
    posts_per_second: float = 1.0
    _buckets: dict[tuple[str, str], Bucket] = field(default_factory=dict)

    def retry_after(self, method: str, tier: int | None, channel: str) -> int:
        """Whole seconds to wait; 0 if the call may go now."""
        if not self.enabled:
            return 0
        waits = []
        if method == "chat.postMessage":
            waits.append(self._take(method, channel, self.burst, self.posts_per_second))
            waits.append(self._take(method, "", POSTS_PER_MINUTE, POSTS_PER_MINUTE / 60))
        elif method == "apps.connections.open":
            waits.append(self._take(method, "", CONNECTIONS_PER_MINUTE, CONNECTIONS_PER_MINUTE / 60))
        elif tier is not None:
            waits.append(self._take(method, "", TIERS[tier], TIERS[tier] / 60))
        return math.ceil(max(waits, default=0.0))

    def _take(self, method: str, channel: str, capacity: float, rate: float) -> float:
        now = time.monotonic()
        bucket = self._buckets.setdefault((method, channel), Bucket(capacity, rate, capacity, now))
        return bucket.take(now)
