"""The order in which a transaction's writes go out."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import UUID

import pytest
from sqlalchemy import text

from agent.database.json_rows import json_rows
from agent.database.writes import Writes

CAST, VOID, DECIDE, TELL, PLAIN = (text(name) for name in ("cast", "void", "decide", "tell", "plain"))


def sent(writes: Writes) -> list[tuple[str, object]]:
    """Each statement with the numbers in its rows, or its parameters."""
    return [
        (statement.text, [row["n"] for row in json.loads(values["rows"])] if "rows" in values else values)
        for statement, values in writes.statements()
    ]


def test_rows_of_members_go_together() -> None:
    """Members that write the same statements cost as many statements as one of them."""
    writes = Writes()
    for n in range(3):
        writes.next_member()
        writes.add_rows(CAST, [{"n": n}], last=False)
        writes.add_rows(DECIDE, [{"n": n}], last=False)
    assert sent(writes) == [("cast", [0, 1, 2]), ("decide", [0, 1, 2])]


def test_each_members_own_order_is_kept() -> None:
    """A statement waits for the members that have another one before it."""
    writes = Writes()
    for n, statements in enumerate([(CAST,), (VOID, CAST), (CAST, DECIDE), (VOID, CAST, DECIDE)]):
        writes.next_member()
        for statement in statements:
            writes.add_rows(statement, [{"n": n}], last=False)
    assert sent(writes) == [("void", [1, 3]), ("cast", [0, 1, 2, 3]), ("decide", [2, 3])]


def test_orders_that_contradict_each_other_are_not_merged() -> None:
    """Where no order suits two members, a statement goes out twice."""
    writes = Writes()
    for n, statements in enumerate([(CAST, DECIDE), (DECIDE, CAST)]):
        writes.next_member()
        for statement in statements:
            writes.add_rows(statement, [{"n": n}], last=False)
    assert sent(writes) == [("cast", [0]), ("decide", [0, 1]), ("cast", [1])]


def test_one_members_statements_stay_apart() -> None:
    """What one member writes twice, it writes twice: the second may depend on what is between."""
    writes = Writes()
    writes.add_rows(CAST, [{"n": 1}], last=False)
    writes.add(PLAIN, {"x": 1})
    writes.add_rows(CAST, [{"n": 2}], last=False)
    assert sent(writes) == [("cast", [1]), ("plain", {"x": 1}), ("cast", [2])]


def test_what_is_last_is_one_statement_behind_all() -> None:
    """Rows of ``last`` are collected from everywhere, and nothing comes behind them."""
    writes = Writes()
    writes.add_rows(TELL, [{"n": 1}], last=True)
    writes.add_rows(TELL, [], last=True)
    writes.next_member()
    writes.add(PLAIN, {"x": 1})
    writes.add_rows(TELL, [{"n": 2}], last=True)
    assert sent(writes) == [("plain", {"x": 1}), ("tell", [1, 2])]
    assert writes
    assert not Writes()


def test_rows_are_text_that_postgresql_reads() -> None:
    """Rows carry JSON values, UUIDs, times and bytes in the forms that PostgreSQL casts; other values are refused."""
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    values = {"id": UUID(int=7), "at": at, "hash": b"\x00\xff", "body": {"é": [1, 2.5, None, True, b"\x01"]}}
    assert json.loads(json_rows([values])) == [
        {
            "id": str(UUID(int=7)),
            "at": "2026-03-01T12:00:00Z",
            "hash": "\\x00ff",
            "body": {"é": [1, 2.5, None, True, "\\x01"]},
        }
    ]
    with pytest.raises(TypeError, match="set"):
        json_rows([{"body": {"people": {"U0ADA"}}}])
