"""PostgreSQL for tests: one server per test process, and one database that each test finds as if newly made."""

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
"""Tests in one database before the next is made: what they delete stays in its files."""


@dataclass
class Postgres:
    """The server of this test process; its databases are copies of a migrated one, made in milliseconds."""

    server: embedded_server.EmbeddedServer
    admin: psycopg.Connection[Any]
    shared: Shared | None = None
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def url(self, name: str) -> str:
        """The address of the database `name`, as the superuser who owns everything."""
        return self.server.url.replace("/postgres?", f"/{name}?")

    def create(self, template: str = "template0") -> str:
        """A new database; returns its name."""
        name = f"test_{next(self._numbers)}"
        self.admin.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        return name

    def drop(self, name: str) -> None:
        self.admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def lend(self) -> Shared:
        """The database that tests use one after another, migrated and empty."""
        if self.shared is None:
            name = self.create(TEMPLATE)
            self.shared = _lent[self.url(name)] = Shared(name, self.url(name))
        return self.shared

    def take_back(self) -> None:
        """A test is over: empty the database, or drop it where that cannot make it what it was."""
        if self.shared is not None and not self.shared.empty():
            self.retire()

    def retire(self) -> None:
        """Let go of the shared database."""
        if self.shared is not None:
            del _lent[self.shared.url]
            self.shared.close()
            self.drop(self.shared.name)
            self.shared = None


class Shared:
    """A migrated database in which one test after another runs.

    To make a database and to fill the caches of new connections costs more than most tests do in it. So tables
    are emptied in between, and connections stay open. Where a test changed anything else, nobody follows it.
    """

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.url = url
        self.owner = self._connect("owner")
        self.owner.prepare_threshold = None  # it would not know that its statements are discarded
        self._kept: dict[str, Kept] = {}
        self._uses = 0
        self._cleaner = self._connect("cleaner")
        self._cleaner.execute(_cleaning(self._cleaner))
        self._cleaner.execute("SET lock_timeout = '2s'")
        self._made = self._cleaner.execute(MADE).fetchone()

    def keep(self, application_name: str) -> Kept:
        """This database for one who closes it, with connections that stay open for the next."""
        if application_name not in self._kept:
            self._kept[application_name] = Kept(self.url, application_name=application_name)
        return self._kept[application_name]

    def empty(self) -> bool:
        """Make it what it was when it was new; returns whether it is."""
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
        """Close every connection."""
        loop = asyncio.new_event_loop()
        for kept in self._kept.values():
            loop.run_until_complete(kept.end())
        loop.close()
        self.owner.close()
        self._cleaner.close()

    def _connect(self, name: str) -> psycopg.Connection[Any]:
        return psycopg.connect(Address.read(self.url).conninfo(name), autocommit=True)


class Kept(Database):
    """A database whose connections outlive its user: the next one finds them open, with their caches filled."""

    def _engine(self, *sizes: Any, **settings: Any) -> AsyncEngine:
        """Keep every plan from a statement's second use on, where the driver and PostgreSQL wait for more."""
        settings["plan_cache_mode"] = "force_generic_plan"
        engine = super()._engine(*sizes, **settings)
        event.listen(engine.sync_engine, "connect", _prepare_at_once)
        return engine

    async def close(self) -> None:
        """Nothing: `end` closes it."""

    async def end(self) -> None:
        """Close it."""
        await super().close()

    @property
    def in_use(self) -> bool:
        """Whether somebody has not given back a connection, or listens."""
        listens = self._listeners or self.wakeups._listeners
        return bool(listens) or any(pool.in_use for pool in self.pools())


def _prepare_at_once(dbapi_connection: Any, _record: object) -> None:
    raw: psycopg.AsyncConnection[Any] = dbapi_connection.driver_connection
    raw.prepare_threshold = 1
    raw.prepared_max = 10_000


_lent: dict[str, Shared] = {}


def kept(url: str, application_name: str = "signoff") -> Database:
    """The database at this address, for one user in this process: with open connections, where tests share it."""
    shared = _lent.get(url)
    return shared.keep(application_name) if shared else Database(url, application_name=application_name)


OTHERS_END = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
  AND NOT (application_name = ANY(%s) AND state = 'idle')
"""
# Whatever is created, altered, dropped or analysed leaves a trace in one of these, behind what PostgreSQL has brought
# along; `clean` itself switches the triggers that are always on.
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
    """A function that empties every table, whatever its triggers and foreign keys say."""
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
