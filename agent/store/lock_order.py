"""The order of all locks.

FOR NO KEY UPDATE, so that foreign-key checks (FOR KEY SHARE), which follow no order, do not wait. Sweeps use SKIP
LOCKED. A child run comes before its parent; other rows of a table by id. A drain locks its destination first and the
next message with SKIP LOCKED, as it may still hold the previous one.
"""

from __future__ import annotations

PAUSE = "pause switch"
"""Advisory; claims share it."""

QUESTION = "question"
"""Advisory, by a program's key and its name for the action; taken by whoever may open its request."""

CONCURRENCY = "concurrency"
"""Advisory, by name; taken by claims."""

LIMIT = "limit"
"""Advisory, by limit and subject; taken by calls that run without a person."""

GRANT_COUNT = "grant count"
"""Advisory, by agent and tool; taken by who proposes a grant."""

RETENTION = "retention"
"""Taken at the end of erasing, when the counts are known."""

LOCK_ORDER = (
    PAUSE,
    QUESTION,
    "schedule",
    "outlet",
    "agent_run",
    "approval_request",
    "tool_call",
    "execution",
    CONCURRENCY,
    LIMIT,
    GRANT_COUNT,
    "approval_grant",
    "audit_head",
    "admin_channel",
    "delivery",
    RETENTION,
)
