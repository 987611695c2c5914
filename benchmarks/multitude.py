"""Very many requests, copied inside the database.

Every related row is copied, including runs, cards, votes and audit log, so that tables and indexes have realistic
sizes. Requesters, reviewers, channels and times vary. Each copy's audit log is a valid chain (`signoff audit verify`
finds nothing).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg

from agent.domain.audit import moment
from agent.domain.consent_terms import ConsentTerms
from agent.store import exclusions
from benchmarks.chains import chains
from benchmarks.ground import owner
from benchmarks.waiting import CHANNEL, FINANCE
from signoff.values import Person
from signoff_demo.sandbox.workspace import SandboxWorkspace

GROUPS = 12
"""Reviewer groups among the copies; every `MINE`-th copy is for the clickers' group."""

MINE = 20
CHANNELS = 5
PEOPLE = 5000
CHUNK = 20_000

_UUIDV7 = """
CREATE OR REPLACE FUNCTION uuidv7() RETURNS uuid LANGUAGE sql VOLATILE AS $$
SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7'
        || substr(md5(random()::text), 1, 3) || '8' || substr(md5(random()::text), 1, 15))::uuid
$$
"""
"""PostgreSQL has it from 18 on."""

_IDS = f"""
CREATE TEMP TABLE copies AS
SELECT n, uuidv7() AS request, uuidv7() AS run, uuidv7() AS call,
       CASE WHEN n %% {MINE} = 0 THEN '{FINANCE}' ELSE 'S0TEAM' || n %% {GROUPS} END AS reviewers,
       CASE WHEN n %% {MINE} = 0 THEN '{CHANNEL}' ELSE 'C0TEAM' || n %% {CHANNELS} END AS channel,
       'U0PERSON' || n %% {PEOPLE} AS person,
       clock_timestamp() - interval '1 ms' * (%(last)s - n) AS born,
       clock_timestamp() + interval '2 days' * (1 + random()) AS until, CAST(NULL AS text) AS terms
FROM generate_series(%(first)s::int, %(last)s::int) AS n
"""
_ORIGINAL = (
    "SELECT requester_team_id, excluded, approvals_required, expires_at FROM approval_request WHERE id = %s"
)
_TERMS = """
UPDATE copies SET terms = encode(sha256(convert_to(replace(replace(replace(
    %(content)s, '@reviewers@', reviewers), '@person@', person),
    %(until)s, to_char(until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')), 'UTF8')), 'hex')
"""

# Columns that differ from the original, by table. `t` is the original's row.
_RUN = {
    "id": "c.run",
    "start_key": "NULL",
    "requester_user_id": "c.person",
    "thread_ts": "c.n::text",
    "created_at": "c.born",
}
_REQUEST = {
    "id": "c.request",
    "run_id": "c.run",
    "call_id": "c.call",
    "client_id": "c.call::text",
    "requester_user_id": "c.person",
    "approvers": "jsonb_build_array(c.reviewers)",
    "channel_id": "c.channel",
    "created_at": "c.born",
    "expires_at": "c.until",
    "remind_next": "c.born + (t.remind_next - t.created_at) * (1 + random())",
}
_DELIVERY = {
    "id": "uuidv7()",
    "channel_id": "CASE WHEN t.request_id IS NULL THEN t.channel_id ELSE c.channel END",
    "request_id": "CASE WHEN t.request_id IS NULL THEN NULL ELSE c.request END",
    "run_id": "CASE WHEN t.run_id IS NULL THEN NULL ELSE c.run END",
    "coalesce_key": "NULL",
}
_PLACE = {
    "nonce": "replace(c.request::text, '-', '')",
    "request_id": "c.request",
    "channel_id": "c.channel",
    "ts": "c.n || '.000100'",
}
Tables = Mapping[str, tuple[str, Mapping[str, str]]]

_TABLES: Tables = {
    "agent_run": ("t.id = o.run_id", _RUN),
    "run_message": ("t.run_id = o.run_id", {"run_id": "c.run", "source_key": "NULL"}),
    "tool_call": ("t.run_id = o.run_id", {"id": "c.call", "run_id": "c.run", "created_at": "c.born"}),
    "approval_request": ("t.id = o.id", _REQUEST),
    "request_revision": ("t.request_id = o.id", {"request_id": "c.request"}),
    "card_place": ("t.request_id = o.id AND t.surface = 'channel'", _PLACE),
    "delivery": ("t.request_id = o.id OR t.run_id = o.run_id", _DELIVERY),
    "vote": ("t.request_id = o.id", {"id": "uuidv7()", "request_id": "c.request"}),
    "decision": ("t.request_id = o.id", {"request_id": "c.request"}),
}


async def multiply(url: str, request_id: str, count: int, *, after: int = 0) -> None:
    """Create copies of the request, delivered and waiting for days; the database, vacuumed, has ``after`` already."""
    await asyncio.to_thread(_multiply, url, request_id, count, after)


def staff(workspace: SandboxWorkspace) -> None:
    for group in range(GROUPS):
        workspace.add_usergroup(f"S0TEAM{group}", f"team-{group}", ["U0LINUS"])
    for channel in range(CHANNELS):
        workspace.add_channel(f"C0TEAM{channel}", f"team-{channel}", ["U0LINUS", workspace.bot.user_id])


def _multiply(url: str, request_id: str, count: int, after: int) -> None:
    with copying(url) as connection:
        if connection.info.server_version < 180000:
            connection.execute(_UUIDV7)
        make = Copies(connection, request_id, _TABLES)
        last = after + count
        for first in range(after + 1, last + 1, CHUNK):
            with connection.transaction():
                make.chunk(_IDS, {"first": first, "last": min(last, first + CHUNK - 1)})


@contextmanager
def copying(url: str) -> Iterator[psycopg.Connection[Any]]:
    """Vacuums at the end."""
    with owner(url) as connection:
        # Referenced rows are copied too, so foreign keys and triggers need not be checked per row.
        connection.execute("SET session_replication_role = replica")
        yield connection
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


class Copies:
    """Copies of one request. ``differs``: the columns that differ, by table, and ``names`` the same in events."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        request_id: str,
        tables: Tables,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self._connection = connection
        self._request_id = request_id
        self._until, self._content = _terms(connection, request_id)
        self._statements = list(_statements(connection, tables))
        self._links = list(chains(connection, request_id, names or {}))

    def chunk(self, ids: LiteralString, given: Mapping[str, object]) -> None:
        """``ids`` makes the table `copies`."""
        connection = self._connection
        connection.execute(ids, given)
        connection.execute(_TERMS, {"content": self._content, "until": self._until})
        for statement in self._statements:
            connection.execute(statement, {"request": self._request_id})
        for link in self._links:
            connection.execute(link)
        connection.execute("DROP TABLE copies")


def _terms(connection: psycopg.Connection[Any], request_id: str) -> tuple[str, str]:
    """The deadline, and the terms of consent with names for what differs, as their digest covers them."""
    row = connection.execute(_ORIGINAL, [request_id]).fetchone()
    if row is None:
        raise RuntimeError(f"there is no request {request_id}")
    team_id, excluded, approvals, until = row
    requester = Person(team_id, "@person@") if team_id else None
    terms = ConsentTerms(("@reviewers@",), requester, exclusions.from_json(excluded), approvals, until)
    return moment(until), json.dumps(terms.content)


def _statements(connection: psycopg.Connection[Any], tables: Tables) -> Iterator[str]:
    """Every table except the audit log's."""
    for table, (belongs, differs) in tables.items():
        rows = connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped",
            [table],
        )
        columns = [str(name) for (name,) in rows]
        names = ", ".join(f'"{name}"' for name in columns)
        values = ", ".join(differs.get(name, f't."{name}"') for name in columns)
        yield (
            f"INSERT INTO {table} ({names}) SELECT {values} FROM copies AS c"
            f" CROSS JOIN (SELECT id, run_id FROM approval_request WHERE id = %(request)s) AS o"
            f" JOIN {table} AS t ON {belongs} ORDER BY c.n"
        )


def is_overdue(connection: psycopg.Connection[Any]) -> bool:
    """One index step by the database's clock, so that looking costs nothing."""
    row = connection.execute(
        "SELECT min(expires_at) <= clock_timestamp() FROM approval_request WHERE status = 'waiting'"
    ).fetchone()
    return bool(row and row[0])
