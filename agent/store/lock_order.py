"""The order in which every transaction takes its locks.

Rows are locked FOR NO KEY UPDATE: a foreign key's check (FOR KEY SHARE) in another transaction follows no order, and
does not have to wait for such a lock. Sweeps skip rows that are locked (SKIP LOCKED).

A child run is locked before its parent; rows of one table otherwise by id. A drain takes its destination first, and
the next message of the channel with SKIP LOCKED, as it may still hold the message before.
"""

from __future__ import annotations

PAUSE = "pause switch"
"""The advisory lock of the pause switch; claims share it."""

CONCURRENCY = "concurrency"
"""The advisory locks of concurrency limits that hold across processes, by name; claims of such calls take them."""

RETENTION = "retention"
"""The audit head of what was erased. Only erasing takes it, when it knows how much it has erased."""

LOCK_ORDER = (
    PAUSE,
    "outlet",
    "agent_run",
    "approval_request",
    "tool_call",
    "execution",
    CONCURRENCY,
    "audit_head",
    "delivery",
    RETENTION,
)
