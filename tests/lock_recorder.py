from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq import TransactionStatus

from agent.database.address import Address
from agent.store.lock_order import CONCURRENCY, GRANT_COUNT, LIMIT, LOCK_ORDER, PAUSE, QUESTION, RETENTION

_LEVELS = {name: level for level, name in enumerate(LOCK_ORDER)}
_TABLES = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)(?:\s+AS\s+(\w+))?")
_LOCKING = re.compile(
    r"\bFOR\s+(?:NO\s+KEY\s+)?(?:UPDATE|SHARE)(?:\s+OF\s+([\w, ]+?))?(\s+SKIP\s+LOCKED)?\s*(?=\)|$)"
)
_WRITTEN = re.compile(
    r"(?<!KEY )(?<!FOR )(?<!DO )\bUPDATE\s+(\w+)|\bDELETE\s+FROM\s+(\w+)|\bINSERT\s+INTO\s+(audit_head)"
    r"|\bINSERT\s+INTO\s+(delivery)\b(?=.*\bON CONFLICT\b)",
    re.DOTALL,
)
_OF_RETENTION = re.compile(rf"""subjects?['"]: ?\[?['"]{RETENTION}['"]""")
_ADVISORY = {
    "signoff pause": PAUSE,
    "signoff question": QUESTION,
    "signoff limit": CONCURRENCY,
    "signoff use": LIMIT,
    "signoff grants": GRANT_COUNT,
}
_MADE = re.compile(r"\bINSERT\s+INTO\s+(\w+)")


@dataclass(frozen=True, slots=True)
class Lock:
    """Rows that a statement names or writes, the pause switch, or a concurrency limit."""

    name: str
    written: bool = False
    skips: bool = False


@cache
def locks_of(sql: str) -> tuple[Lock, ...]:
    """In the statement's order."""
    found: list[Lock] = []
    if "pg_advisory_xact_lock" in sql:
        found += [Lock(name) for words, name in _ADVISORY.items() if words in sql]
    for locking in _LOCKING.finditer(sql):
        tables = _TABLES.findall(sql)
        aliases = {alias or table: table for table, alias in tables}
        named = [each.strip() for each in (locking[1] or tables[0][0]).split(",")]
        found += [Lock(aliases.get(each, each), skips=locking[2] is not None) for each in named]
    for tables in _WRITTEN.findall(sql):
        found.append(Lock("".join(tables), written=True))
    return tuple(each for each in found if each.name in _LEVELS)


@cache
def rows_made(sql: str) -> frozenset[str]:
    """Tables in which a statement inserts rows, which nobody else can lock before COMMIT."""
    return frozenset(_MADE.findall(sql)) & _LEVELS.keys()


# A row that a transaction has made says nothing of its others, which it writes as well.
_MADE_BESIDE_OTHERS = {"audit_head", "delivery", "tool_call", "approval_request"}


@dataclass(slots=True)
class _Transaction:
    level: int = -1
    names: set[str] = field(default_factory=set)
    statements: set[str] = field(default_factory=set)
    runs: list[str] = field(default_factory=list)


class LockRecorder:
    def __init__(self) -> None:
        self.violations: list[str] = []
        self.runs: list[list[str]] = []
        """Runs that each transaction has locked, if more than one."""
        self._open: WeakKeyDictionary[object, _Transaction] = WeakKeyDictionary()

    def note(self, connection: psycopg.AsyncConnection[Any], sql: str, parameters: Any) -> None:
        if connection.info.transaction_status == TransactionStatus.IDLE:
            self._open.pop(connection, None)
        if not (locks := locks_of(sql)) and not rows_made(sql):
            return
        if _OF_RETENTION.search(str(parameters)):  # the one head with its own place in the order
            locks = tuple(replace(each, name=RETENTION) for each in locks if each.name == "audit_head")
        transaction = self._open.setdefault(connection, _Transaction())
        transaction.names |= rows_made(sql) - _MADE_BESIDE_OTHERS
        statement = f"{sql} {parameters}"
        for lock in locks:
            self._take(transaction, lock, statement)
        transaction.statements.add(statement)
        if (
            locks
            and locks[0].name == "agent_run"
            and not locks[0].written
            and parameters
            and "id" in parameters
        ):
            self._note_run(transaction, str(parameters["id"]))

    def _take(self, transaction: _Transaction, lock: Lock, statement: str) -> None:
        level = _LEVELS[lock.name]
        if level < transaction.level and not self._may(transaction, lock, statement):
            self.violations.append(f"{LOCK_ORDER[transaction.level]} before {lock.name}: {statement}")
        transaction.level = max(level, transaction.level)
        transaction.names.add(lock.name)

    def _may(self, transaction: _Transaction, lock: Lock, statement: str) -> bool:
        """Allow rows that are locked already, and locks that are not waited for."""
        again = lock.name in transaction.names if lock.written else statement in transaction.statements
        return again or lock.skips

    def _note_run(self, transaction: _Transaction, run_id: str) -> None:
        if run_id not in transaction.runs:
            transaction.runs.append(run_id)
        if len(transaction.runs) == 2:
            self.runs.append(transaction.runs)


RECORDER = LockRecorder()


def install() -> None:
    """Observe every statement of asynchronous connections of this process."""
    execute = psycopg.AsyncCursor.execute

    async def recorded(self: Any, query: Any, params: Any = None, **options: Any) -> Any:
        RECORDER.note(self.connection, query if isinstance(query, str) else str(query), params)
        return await execute(self, query, params, **options)

    psycopg.AsyncCursor.execute = recorded  # type: ignore[method-assign]


def check(url: str) -> None:
    """Raises AssertionError if a transaction since the last check has taken its locks in another order."""
    violations, RECORDER.violations = RECORDER.violations, []
    locked, RECORDER.runs = RECORDER.runs, []
    if locked:
        with psycopg.connect(Address.read(url).conninfo("lock order")) as connection:
            violations += [
                f"a parent before its child run: {runs}" for runs in locked if _parent_first(connection, runs)
            ]
    assert not violations, "locks out of order:\n" + "\n".join(violations)


def _parent_first(connection: psycopg.Connection[Any], runs: list[str]) -> bool:
    above = dict(connection.execute(_ANCESTORS, [runs]).fetchall())
    return any(set(above.get(run, ())) & set(runs[:at]) for at, run in enumerate(runs))


_ANCESTORS = "SELECT id::text, ancestor_ids::text[] FROM signoff.agent_run WHERE id = ANY(%s::uuid[])"
