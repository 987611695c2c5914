"""The sums of the limits over time: whatever window they are asked for, they say what the uses themselves say."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import psycopg

from agent.database.pools import Database
from agent.domain.api_keys import Principal
from agent.domain.limits import Limit, Use
from agent.store.limits import SUM, forget_old, parameters
from agent.usecases import limits
from tests.integration import invariants
from tests.integration.asking import rows, write

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
PROGRAM = Principal(uuid4(), "ci", frozenset(), None, None)
MICROSECOND = timedelta(microseconds=1)
STEPS = (timedelta(minutes=1), timedelta(hours=1), timedelta(days=1))

COUNT = """
INSERT INTO limit_use (limit_name, key, subject, amount, settled, at)
SELECT 'refunds', gen_random_uuid(), subject, CAST(amount AS numeric), true, CAST(at AS timestamptz)
FROM json_to_recordset(CAST(:uses AS json)) AS t (subject text, amount text, at text)
"""
COMPARED = """
SELECT edge.at, coalesce(sum(u.amount), 0),
       (SELECT coalesce(sum(amount), 0) FROM limit_settled('refunds', edge.at) WHERE subject = 'all')
FROM unnest(CAST(:edges AS timestamptz[])) AS edge (at)
LEFT JOIN limit_use AS u ON u.limit_name = 'refunds' AND u.subject = 'all' AND u.at > edge.at
GROUP BY edge.at
"""


def moments(dice: random.Random) -> Iterator[datetime]:
    """Each boundary, a moment beside it, and some in between."""
    for step in STEPS:
        for n in range(-3, 3):
            for beside in (-MICROSECOND, timedelta(0), MICROSECOND):
                yield NOON.replace(hour=0) + n * step + beside
    for _ in range(60):
        yield NOON - dice.random() * timedelta(days=4)


async def test_every_window_is_exact(database: Database) -> None:
    """A use counts exactly if it is later than the window's edge, wherever minutes, hours and days begin."""
    dice = random.Random(3)
    edges = sorted(set(moments(dice)))
    stored = [
        {
            "subject": dice.choice(["all", "all", "other"]),
            "amount": f"{dice.randint(1, 99) / 10}",
            "at": str(at),
        }
        for at in [*edges, *moments(dice)]
    ]
    await write(database, COUNT, uses=json.dumps(stored))
    for edge, added_up, from_sums in await rows(database, COMPARED, edges=edges):
        assert from_sums == added_up, edge
    assert await invariants.broken(database) == []


async def test_sums_follow_their_uses(database: Database) -> None:
    """A use that is settled, comes again later, takes another amount or is deleted is in one sum, or in none."""
    limit = Limit("refunds", "refund", "args.amount", "all", timedelta(days=2), Decimal(100))
    changes = (
        "UPDATE limit_use SET amount = 2.5",
        "UPDATE limit_use SET at = at - interval '1 day'",
        "UPDATE limit_use SET subject = 'other', at = at + interval '90 s'",
        "UPDATE limit_use SET settled = false WHERE amount = 2.5 AND limit_name = 'refunds'",
        "DELETE FROM limit_use",
    )
    stored = [{"subject": "all", "amount": each, "at": str(NOON)} for each in ("0.1", "0.2", "0.1")]
    await write(database, COUNT, uses=json.dumps(stored))
    for change in changes:
        await write(database, change)
        assert await invariants.broken(database) == []
    assert await rows(database, "SELECT * FROM limit_sum") == []
    assert await limits.by_subject(database, [limit]) == []


async def test_what_has_left_the_window_is_taken_again(database: Database) -> None:
    """The same question after its window is one use, of now; what others used is neither more nor less for it."""
    limit = Limit("refunds", "refund", "args.amount", "all", timedelta(hours=1), Decimal(10))
    mine, key = Use(limit, "all", Decimal(4)), uuid4()
    for use in (key, uuid4()):
        assert await limits.allow_use(database, PROGRAM, use, [mine], {}, agent="crm") == ()
    await write(database, "UPDATE limit_use SET at = at - interval '2 h' WHERE key = :key", key=key)
    [state] = await limits.states(database, key, [mine])
    assert state.used == 4
    assert await limits.allow_use(database, PROGRAM, key, [mine], {}, agent="crm") == ()
    [other] = await limits.states(database, uuid4(), [mine])
    assert other.used == 8
    assert await invariants.broken(database) == []


async def test_only_what_is_final_is_forgotten(database: Database) -> None:
    """A use before every window stays as long as people are asked about it, or it is in doubt."""
    stored = [{"subject": "all", "amount": each, "at": str(NOON - timedelta(days=60))} for each in ("1", "2")]
    await write(database, COUNT, uses=json.dumps(stored))
    await write(database, "UPDATE limit_use SET settled = false WHERE amount = 2")
    async with database.transaction() as tx:
        assert await forget_old(tx, 10) == 1
    assert await rows(database, "SELECT amount FROM limit_use") == [(Decimal(2),)]


async def test_a_window_of_many_uses_is_few_rows(database: Database, owner: psycopg.Connection[Any]) -> None:
    """Ten thousand uses within a day are read as a few sums and the uses of one minute."""
    await write(
        database,
        "INSERT INTO limit_use (limit_name, key, subject, amount, settled, at)"
        " SELECT 'refunds', gen_random_uuid(), 'all', 1, true, clock_timestamp() - n * interval '8.6 s'"
        " FROM generate_series(1, 10000) AS n",
    )
    owner.execute("ANALYZE limit_use, limit_sum")
    limit = Limit("refunds", "refund", "count", "all", timedelta(days=1), Decimal(100))
    use = Use(limit, "all", Decimal(1))
    asked = parameters([use], [uuid4()])
    named = {f":{name}": f"%({name})s" for name in asked}
    statement = str(SUM)
    for name, placeholder in named.items():
        statement = statement.replace(name, placeholder)
    [(plan,)] = owner.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", asked).fetchall()
    assert 0 < read(plan[0]["Plan"]) < 200
    [state] = await limits.states(database, uuid4(), [use])
    assert state.used == Decimal(10_000)


def read(node: dict[str, Any]) -> int:
    """How many rows of uses and sums a plan has read."""
    mine = node["Actual Rows"] * node["Actual Loops"] if "limit_" in node.get("Relation Name", "") else 0
    return int(mine) + sum(read(part) for part in node.get("Plans", ()))
