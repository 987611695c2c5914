"""The order in which every transaction takes its locks.

Rows are locked FOR NO KEY UPDATE: a foreign key's check (FOR KEY SHARE) in another transaction follows no order, and
does not have to wait for such a lock. Sweeps skip rows that are locked (SKIP LOCKED).

A child run is locked before its parent; rows of one table otherwise by id.
"""

from __future__ import annotations

PAUSE = "pause switch"
"""The advisory lock of the pause switch; claims share it."""

LIMIT = "limit"
"""The advisory locks of limits that hold across processes, by name; claims of such calls take them."""

LOCK_ORDER = (PAUSE, "agent_run", "approval_request", "tool_call", "execution", LIMIT, "audit_head")
