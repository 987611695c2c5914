"""How a delivery to the app ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ACK_SECONDS = 3.0
"""Slack's limit for acknowledging a command, action, submission or event."""
TIMED_OUT = "operation timed out"


@dataclass(frozen=True)
class DeliveryReport:
    """`acked`: HTTP 200 in time. `status` is 200 also for an acknowledged envelope."""

    acked: bool
    elapsed: float
    status: int | None = None
    payload: Any = None
    error: str | None = None
