"""The order in which every transaction takes its locks.

Locks are FOR NO KEY UPDATE, so that a foreign key's check (FOR KEY SHARE), which follows no order, need not wait.
Sweeps use SKIP LOCKED. A child run is locked before its parent; other rows of one table by id. A drain locks its
destination first, and the next message with SKIP LOCKED, as it may still hold the previous message.
"""

from __future__ import annotations

PAUSE = "pause switch"
"""The advisory lock of the pause switch; claims share it."""

CONCURRENCY = "concurrency"
"""Advisory locks of concurrency limits across processes, by name; taken by claims of such calls."""

LIMIT = "limit"
"""Advisory locks of limits over time, by limit and subject; taken by calls that would run without a person."""

RETENTION = "retention"
"""The audit head of retention. Taken only at the end of erasing, when the counts are known."""

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
