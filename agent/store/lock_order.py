"""The order of all locks.

FOR NO KEY UPDATE, so that foreign-key checks (FOR KEY SHARE), which follow no order, do not wait. Sweeps use SKIP
LOCKED. A child run comes before its parent; other rows of a table by id. A drain locks its destination first and the
next message with SKIP LOCKED, as it may still hold the previous one.
"""

from __future__ import annotations

PAUSE = "pause switch"
"""Advisory; claims share it."""

CONCURRENCY = "concurrency"
"""Advisory, by name; taken by claims."""

LIMIT = "limit"
"""Advisory, by limit and subject; taken by calls that run without a person."""

RETENTION = "retention"
"""Taken at the end of erasing, when the counts are known."""

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
