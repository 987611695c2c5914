"""Uses of limits over time, deleted once no window reaches back to them.

A use is one row per limit and call, however often that is evaluated or attempted. Its state
follows from the call and its attempts (view ``limit_use_open``), so no release is lost; ``settle_ended`` stores only
final states. A trigger sums uses per minute, hour and day (``limit_sum``); ``limit_settled`` reads a window in few
rows.

Calls that would run without a person lock their limits by name and subject, sum up, and write their uses before
COMMIT. Approved calls add theirs without the lock: they could as well have come a moment later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text

from agent.database.json_rows import json_rows
from agent.database.transaction import Connection, Transaction, fetch, query
from agent.domain.limits import LONGEST, LimitState, Use, add
from agent.store.ids import digest_id


class LimitRoom:
    """Room under limits that this transaction has locked."""

    def __init__(self, locked: Collection[Row[Any]] = (), sums: Collection[Row[Any]] = ()) -> None:
        self._locked = {(row.name, row.subject) for row in locked if row.locked}
        self._sums = {(row.name, row.subject): _Sum.of(row) for row in sums}

    def holds(self, uses: Iterable[Use]) -> bool:
        return all(use.key in self._locked for use in uses)

    def states(self, key: UUID, uses: Sequence[Use]) -> list[LimitState]:
        """The limits without the key's own reservations."""
        return [
            LimitState(use, add(found.used, *found.but(key)), found.waiting)
            for use in uses
            for found in [self._sums[use.key]]
        ]

    def has_room(self, key: UUID, uses: Sequence[Use]) -> bool:
        """What counts already needs no room."""
        return all(state.verdict == "run" for state in self.states(key, self.uncounted(key, uses)))

    def uncounted(self, key: UUID, uses: Sequence[Use]) -> list[Use]:
        """Uses that do not count yet, or count less."""
        return [use for use in uses if not self._sums[use.key].counts(key, use.amount)]

    def take(self, key: UUID, uses: Sequence[Use]) -> None:
        for use in uses:
            if use.key in self._sums:
                self._sums[use.key].own[str(key)] = use.amount or Decimal(0)


@dataclass(slots=True)
class _Sum:
    used: Decimal
    waiting: Decimal
    own: dict[str, Decimal]
    """By key; not part of ``used``."""

    @classmethod
    def of(cls, row: Row[Any]) -> _Sum:
        return cls(row.used, row.waiting, {key: Decimal(amount) for key, amount in (row.own or {}).items()})

    def but(self, key: UUID) -> list[Decimal]:
        return [amount for other, amount in self.own.items() if other != str(key)]

    def counts(self, key: UUID, amount: Decimal | None) -> bool:
        mine = self.own.get(str(key))
        return mine is not None and amount is not None and mine >= amount


def parameters(uses: Iterable[Use], keys: Collection[UUID]) -> dict[str, Any]:
    """Sorted parameters, so that all transactions lock in the same order."""
    found = {use.key: use for use in uses}
    ordered = [found[key] for key in sorted(found)]
    limits = [
        {"name": use.limit.name, "subject": use.subject, "seconds": use.limit.within.total_seconds()}
        for use in ordered
    ]
    return {"limits": json_rows(limits), "keys": list(keys)}


async def states(connection: Connection, key: UUID, uses: Sequence[Use]) -> list[LimitState]:
    """Like ``lock``, without locking."""
    sums = await fetch(connection, SUM, **parameters(uses, [key]))
    return LimitRoom((), sums).states(key, uses)


async def lock(connection: Connection, key: UUID, uses: Sequence[Use]) -> LimitRoom:
    """Lock the limits of these uses until COMMIT and return the room that is left under them."""
    return LimitRoom(*await query(connection, TAKE, SUM, **parameters(uses, [key])))


def reserve(tx: Transaction, uses: Sequence[Use], call_id: UUID) -> None:
    """Replace the uses of a call; skips uncountable ones."""
    tx.add_rows(_RESERVE, [_row(use, call_id) for use in uses])


def add_settled(tx: Transaction, key: UUID, uses: Sequence[Use]) -> None:
    """A program that may proceed sends no report, so its uses count at once."""
    tx.add_rows(_ADD_SETTLED, [_row(use, key) for use in uses])


def question_key(principal: str, client_id: str, content: bytes) -> UUID:
    """Keys are equal only for equal content."""
    return digest_id(principal, client_id, content.hex())


def _row(use: Use, key: UUID) -> dict[str, Any]:
    return {
        "limit_name": use.limit.name,
        "key": key,
        "subject": use.subject,
        "amount": str(use.amount or 0),
    }


async def settle_ended(connection: Connection, limit: int) -> int:
    """Store the final state of up to `limit` uses whose calls have ended, and return how many."""
    return (await connection.execute(_SETTLE, {"limit": limit})).rowcount


async def forget_old(connection: Connection, limit: int) -> int:
    """Delete up to `limit` settled uses that no window reaches any more, and return how many."""
    parameters = {"limit": limit, "seconds": LONGEST.total_seconds()}
    return (await connection.execute(_FORGET, parameters)).rowcount


@dataclass(frozen=True, slots=True)
class SubjectUse:
    """How much of a limit one subject has used within its window, and how much waits for people."""

    limit: str
    subject: str
    used: Decimal
    waiting: Decimal


async def by_subject(connection: Connection, windows: dict[str, timedelta], most: int) -> list[SubjectUse]:
    """Largest first, at most ``most`` per limit."""
    rows = await fetch(
        connection,
        _BY_SUBJECT,
        limits=list(windows),
        windows=[window.total_seconds() for window in windows.values()],
        most=most,
    )
    return [SubjectUse(row.name, row.subject, row.used, row.waiting) for row in rows]


TAKE = text("""
SELECT name, subject, pg_advisory_xact_lock(hashtextextended(
           'signoff use ' || current_schema() || ' ' || name || ' ' || subject, 0)) IS NOT NULL AS locked
FROM json_to_recordset(CAST(:limits AS json)) AS named (name text, subject text)
""")
TRY = text("""
SELECT name, subject, pg_try_advisory_xact_lock(hashtextextended(
           'signoff use ' || current_schema() || ' ' || name || ' ' || subject, 0)) AS locked
FROM json_to_recordset(CAST(:limits AS json)) AS named (name text, subject text)
""")
# Separate from the lock, to see the previous holder's writes. Waiting requests count whatever their age: their action
# begins only now. All parts use the same edge of the window. PostgreSQL must not see the number of limits: a plan for
# each number costs ten times as much.
SUM = text("""
SELECT named.name, named.subject, settled.amount + open.used - own.settled AS used, open.waiting,
       nullif(open.own || own.amounts, '{}') AS own
FROM (SELECT name, subject, (SELECT clock_timestamp()) - make_interval(secs => seconds) AS edge,
             ARRAY(SELECT unnest(CAST(:keys AS uuid[]))) AS keys
      FROM json_to_recordset(CAST(:limits AS json)) AS named (name text, subject text, seconds float) OFFSET 0) AS named
CROSS JOIN LATERAL (
    SELECT coalesce(sum(amount), 0) AS amount FROM limit_settled(named.name, named.edge) AS part
    WHERE part.subject = named.subject
) AS settled
CROSS JOIN LATERAL (
    SELECT coalesce(sum(u.amount) FILTER (WHERE u.counts AND NOT u.mine), 0) AS used,
           coalesce(sum(u.amount) FILTER (WHERE u.standing = 'waiting' AND NOT u.mine), 0) AS waiting,
           coalesce(jsonb_object_agg(u.key, u.amount::text) FILTER (WHERE u.counts AND u.mine), '{}') AS own
    FROM (SELECT key, amount, standing, key = ANY (named.keys) AS mine,
                 standing IN ('used', 'done') AND at > named.edge AS counts
          FROM limit_use_open WHERE limit_name = named.name AND subject = named.subject) AS u
) AS open
CROSS JOIN LATERAL (
    SELECT coalesce(jsonb_object_agg(u.key, u.amount::text), '{}') AS amounts, coalesce(sum(u.amount), 0) AS settled
    FROM limit_use AS u
    WHERE u.limit_name = named.name AND u.key = ANY (named.keys) AND u.subject = named.subject
      AND u.settled AND u.at > named.edge
) AS own
""")
_RESERVE = text("""
INSERT INTO limit_use (limit_name, key, subject, amount, settled)
SELECT limit_name, key, subject, amount, false FROM json_to_recordset(:rows) AS t (
    limit_name text, key uuid, subject text, amount numeric)
ON CONFLICT (limit_name, key) DO UPDATE SET subject = excluded.subject, amount = excluded.amount
""")
_ADD_SETTLED = text("""
INSERT INTO limit_use (limit_name, key, subject, amount, settled)
SELECT limit_name, key, subject, amount, true FROM json_to_recordset(:rows) AS t (
    limit_name text, key uuid, subject text, amount numeric)
ON CONFLICT (limit_name, key) DO UPDATE
SET subject = excluded.subject, amount = excluded.amount, at = clock_timestamp()
""")
# Locked rows are left to the next sweep.
_SETTLE = text("""
WITH ended AS MATERIALIZED (
    SELECT limit_name, key, standing, at FROM limit_use_open WHERE standing IN ('done', 'released') LIMIT :limit
), held AS MATERIALIZED (
    SELECT u.limit_name, u.key, ended.standing, ended.at
    FROM ended JOIN limit_use AS u ON u.limit_name = ended.limit_name AND u.key = ended.key
    FOR UPDATE OF u SKIP LOCKED
), released AS (
    DELETE FROM limit_use AS u USING held
    WHERE u.limit_name = held.limit_name AND u.key = held.key AND held.standing = 'released'
), done AS (
    UPDATE limit_use AS u SET settled = true, at = held.at FROM held
    WHERE u.limit_name = held.limit_name AND u.key = held.key AND held.standing = 'done'
)
SELECT 1 FROM held
""")
_FORGET = text("""
DELETE FROM limit_use WHERE (limit_name, key) IN (
    SELECT limit_name, key FROM limit_use
    WHERE settled AND at < (SELECT clock_timestamp()) - make_interval(secs => :seconds)
    LIMIT :limit FOR UPDATE SKIP LOCKED)
""")
_BY_SUBJECT = text("""
SELECT named.name, each.subject, each.used, each.waiting
FROM (SELECT name, place, (SELECT clock_timestamp()) - make_interval(secs => seconds) AS edge
      FROM unnest(CAST(:limits AS text[]), CAST(:windows AS float[])) WITH ORDINALITY AS named (name, seconds, place)
      OFFSET 0) AS named
CROSS JOIN LATERAL (
    SELECT uses.subject, sum(uses.used) AS used, sum(uses.waiting) AS waiting FROM (
        SELECT part.subject, part.amount AS used, CAST(0 AS numeric) AS waiting
        FROM limit_settled(named.name, named.edge) AS part
        UNION ALL
        SELECT u.subject, CASE WHEN u.standing IN ('used', 'done') THEN u.amount ELSE 0 END,
               CASE WHEN u.standing = 'waiting' THEN u.amount ELSE 0 END
        FROM limit_use_open AS u
        WHERE u.limit_name = named.name AND u.standing <> 'released'
          AND (u.standing = 'waiting' OR u.at > named.edge)
    ) AS uses
    GROUP BY uses.subject ORDER BY used DESC, uses.subject LIMIT :most
) AS each
ORDER BY named.place, each.used DESC, each.subject
""")
