"""Installation-wide limits on concurrent claims per tool or agent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, text


@dataclass(frozen=True, slots=True)
class ConcurrencyLimit:
    """A limit on calls of an agent that run at once: of one tool, or of all of them if `tool` is None."""

    agent: str
    tool: str | None
    most: int
    across_processes: bool = True

    @property
    def name(self) -> str:
        return f"{self.agent} {self.tool or ''}"


class Room:
    """Room for claims under concurrency limits that this transaction has locked and counted."""

    def __init__(self, taken: Collection[Row[Any]] = (), counted: Collection[Row[Any]] = ()) -> None:
        self._locked = {row.name for row in taken if row.locked}
        self._claimed = Counter({row.name: row.claimed for row in counted})

    def holds(self, limits: Iterable[ConcurrencyLimit]) -> bool:
        return all(limit.name in self._locked for limit in limits)

    def take(self, limits: Collection[ConcurrencyLimit]) -> bool:
        free = all(self._claimed[limit.name] < limit.most for limit in limits)
        if free:
            self._claimed.update({limit.name for limit in limits})
        return free


def parameters(limits: Iterable[ConcurrencyLimit]) -> dict[str, Sequence[str | None]]:
    """Sorted parameters, so that all transactions lock in the same order."""
    named = {limit.name: limit for limit in limits}
    ordered = [named[name] for name in sorted(named)]
    return {
        "bounds": [limit.name for limit in ordered],
        "agents": [limit.agent for limit in ordered],
        "tools": [limit.tool for limit in ordered],
    }


TAKE = text("""
SELECT name, pg_advisory_xact_lock(hashtextextended('signoff limit ' || current_schema() || ' ' || name, 0)) IS NOT NULL
       AS locked
FROM unnest(CAST(:bounds AS text[])) AS name
""")
TRY = text("""
SELECT name, pg_try_advisory_xact_lock(hashtextextended('signoff limit ' || current_schema() || ' ' || name, 0))
       AS locked
FROM unnest(CAST(:bounds AS text[])) AS name
""")
# Separate from the lock, to see the previous holder's claims. With a join PostgreSQL would read all the agent's
# calls.
COUNT = text("""
SELECT named.name,
       (SELECT count(*) FROM execution AS e WHERE e.status = 'claimed' AND (
            SELECT c.run_id IS NOT NULL AND c.agent = named.agent AND c.tool = coalesce(named.tool, c.tool)
            FROM tool_call AS c WHERE c.id = e.call_id)) AS claimed
FROM unnest(CAST(:bounds AS text[]), CAST(:agents AS text[]), CAST(:tools AS text[])) AS named (name, agent, tool)
""")
