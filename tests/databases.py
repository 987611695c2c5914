"""PostgreSQL for tests: one server per process, and one database, empty for each test."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from agent.database import embedded_server
from agent.database.address import SCHEMA, Address
from agent.database.pools import Database

TEMPLATE = "signoff_template"
MAX_USES = 100
"""Tests per database: the rows that they delete stay in its files."""


@dataclass
class Postgres:
    """Databases are copies of a migrated one, made in milliseconds."""

    server: embedded_server.EmbeddedServer
    admin: psycopg.Connection[Any]
    shared: Shared | None = None
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def url(self, name: str) -> str:
        """As its owner, a superuser."""
        return self.server.url.replace("/postgres?", f"/{name}?")

    def create(self, template: str = "template0") -> str:
        name = f"test_{next(self._numbers)}"
        self.admin.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        return name

    def drop(self, name: str) -> None:
        self.admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def lend(self) -> Shared:
        if self.shared is None:
            name = self.create(TEMPLATE)
            self.shared = _lent[self.url(name)] = Shared(name, self.url(name))
        return self.shared

    def take_back(self) -> None:
        """Empty the database after a test, or drop it if that does not restore it."""
        if self.shared is not None and not self.shared.empty():
            self.retire()

    def retire(self) -> None:
        if self.shared is not None:
            del _lent[self.shared.url]
            self.shared.close()
            self.drop(self.shared.name)
            self.shared = None


class Shared:
    """A migrated database that tests use one after the other.

    Creating a database and filling the caches of new connections costs more than most tests. So tables are emptied in
    between, and connections stay open. After any other change, the database is dropped.
    """

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.url = url
        self.owner = self._connect("owner")
        self.owner.prepare_threshold = None  # DISCARD ALL drops prepared statements
        self._kept: dict[str, Kept] = {}
        self._uses = 0
        self._cleaner = self._connect("cleaner")
        self._cleaner.execute(_cleaning(self._cleaner))
        self._cleaner.execute("SET lock_timeout = '2s'")
        self._made = self._cleaner.execute(MADE).fetchone()

    def keep(self, application_name: str) -> Kept:
        """Connections stay open for the next user."""
        if application_name not in self._kept:
            self._kept[application_name] = Kept(self.url, application_name=application_name)
        return self._kept[application_name]

    def empty(self) -> bool:
        """Return whether the database is as new."""
        self._uses += 1
        if self._uses == MAX_USES or self.owner.closed or any(kept.in_use for kept in self._kept.values()):
            return False
        try:
            self.owner.rollback()
            self.owner.execute("DISCARD ALL")
            self._cleaner.execute(OTHERS_END, [["owner", "cleaner", *self._kept]])
            self._cleaner.execute("SELECT pg_temp.clean()")
            return self._cleaner.execute(MADE).fetchone() == self._made
        except psycopg.Error:
            return False

    def close(self) -> None:
        loop = asyncio.new_event_loop()
        for kept in self._kept.values():
            loop.run_until_complete(kept.end())
        loop.close()
        self.owner.close()
        self._cleaner.close()

    def _connect(self, name: str) -> psycopg.Connection[Any]:
        return psycopg.connect(Address.read(self.url).conninfo(name), autocommit=True)


class Kept(Database):
    """A database whose connections, with their caches, survive `close`."""

    def _engine(self, *sizes: Any, **settings: Any) -> AsyncEngine:
        """Prepare and keep plans from a statement's second use on; the driver and PostgreSQL would wait longer."""
        settings["plan_cache_mode"] = "force_generic_plan"
        engine = super()._engine(*sizes, **settings)
        event.listen(engine.sync_engine, "connect", _prepare_at_once)
        return engine

    async def close(self) -> None:
        """`end` closes it."""

    async def end(self) -> None:
        await super().close()

    @property
    def in_use(self) -> bool:
        """Whether a connection is in use, or a listener exists."""
        listens = self._listeners or self.wakeups._listeners
        return bool(listens) or any(pool.in_use for pool in self.pools())


def _prepare_at_once(dbapi_connection: Any, _record: object) -> None:
    raw: psycopg.AsyncConnection[Any] = dbapi_connection.driver_connection
    raw.prepare_threshold = 1
    raw.prepared_max = 10_000


_lent: dict[str, Shared] = {}


def kept(url: str, application_name: str = "signoff") -> Database:
    """With open connections, where tests share the database."""
    shared = _lent.get(url)
    return shared.keep(application_name) if shared else Database(url, application_name=application_name)


OTHERS_END = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
  AND NOT (application_name = ANY(%s) AND state = 'idle')
"""
# Whatever is created, altered, dropped or analysed leaves a trace in one of these. `clean` itself switches the triggers
# that are always on.
CATALOGS = (
    "pg_attrdef", "pg_attribute WHERE attrelid >= 16384", "pg_class WHERE oid >= 16384", "pg_constraint",
    "pg_db_role_setting", "pg_enum", "pg_event_trigger", "pg_namespace", "pg_policy", "pg_proc WHERE oid >= 16384",
    "pg_rewrite", "pg_statistic", "pg_trigger WHERE tgenabled <> 'A'", "pg_type WHERE oid >= 16384",
    f"{SCHEMA}.alembic_version",
)  # fmt: skip
MADE = "SELECT " + ", ".join(
    f"(SELECT count(*) || ' ' || coalesce(max(xmin::text::bigint), 0) FROM {catalog})" for catalog in CATALOGS
)


def _cleaning(connection: psycopg.Connection[Any]) -> str:
    """Despite triggers and foreign keys."""
    names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [SCHEMA])
    tables = {name for (name,) in names} - {"alembic_version"}
    always = dict(
        connection.execute(
            "SELECT c.relname, t.tgname FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid"
            " WHERE t.tgenabled = 'A'"
        )
    )
    sequences = connection.execute("SELECT sequencename FROM pg_sequences WHERE schemaname = %s", [SCHEMA])
    steps = [f"DELETE FROM {table};" for table in tables - always.keys()]
    steps += [f"PERFORM setval('{name}', 1, false);" for (name,) in sequences]
    for table, trigger in always.items():
        steps.append(
            f"IF EXISTS (SELECT FROM {table}) THEN ALTER TABLE {table} DISABLE TRIGGER {trigger};"
            f" DELETE FROM {table}; ALTER TABLE {table} ENABLE ALWAYS TRIGGER {trigger}; END IF;"
        )
    return (
        "CREATE FUNCTION pg_temp.clean() RETURNS void LANGUAGE plpgsql SET session_replication_role = replica"
        f" AS $$ BEGIN {' '.join(steps)} END $$"
    )
