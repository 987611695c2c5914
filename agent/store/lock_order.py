"""The order in which every transaction takes its locks.

FOR NO KEY UPDATE, because a foreign key's check (FOR KEY SHARE) follows no order and need not wait for it. Sweeps
use SKIP LOCKED. A child run is locked before its parent, other rows of one table by id. A drain locks its
destination first, and the next message with SKIP LOCKED, as it may still hold the message before.
"""

from __future__ import annotations

PAUSE = "pause switch"
"""The advisory lock of the pause switch; claims share it."""

CONCURRENCY = "concurrency"
"""The advisory locks of concurrency limits that hold across processes, by name; claims of such calls take them."""

LIMIT = "limit"
"""The advisory locks of limits over time, by limit and subject; what would run without a person takes them."""

RETENTION = "retention"
"""The audit head of what was erased. Only erasing takes it, when it knows how much it has erased."""

LOCK_ORDER = (
    PAUSE,
    "schedule",
    "outlet",
    "agent_run",
    "approval_request",
    "tool_call",
    "execution",
    CONCURRENCY,
    LIMIT,
    "approval_grant",
    "audit_head",
    "delivery",
    RETENTION,
)
