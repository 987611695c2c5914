"""What came back when something was delivered to the app."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ACK_SECONDS = 3.0
"""Slack's limit for acknowledging a command, an action, a submission or an event."""
TIMED_OUT = "operation timed out"


@dataclass(frozen=True)
class DeliveryReport:
    """`acked` only for an answer 200 in time; `status` is HTTP's, also for an acknowledged envelope (200)."""

    acked: bool
    elapsed: float
    status: int | None = None
    payload: Any = None
    error: str | None = None
