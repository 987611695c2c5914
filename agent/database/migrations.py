"""Migrations need no `alembic.ini` or current directory. Functions block: use `asyncio.to_thread`."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString, Self

import psycopg
from psycopg import errors, sql
from sqlalchemy import Connection, NullPool, create_engine, exc, text

from agent.database.address import APP_ROLE, SCHEMA, Address, quoted
from agent.database.errors import DatabaseUnavailable, DatabaseUnusable, in_one_line
from agent.database.locations import migrations_path

if TYPE_CHECKING:
    from alembic.config import Config

_VERSION: LiteralString = "SELECT version_num FROM {schema}.alembic_version"
_OLDEST: LiteralString = """
SELECT w.oldest FROM {schema}.works_with AS w JOIN {schema}.alembic_version AS a ON a.version_num = w.version
"""
_LINEAGE: LiteralString = "SELECT marker FROM {schema}.lineage"
_IS_OURS: LiteralString = "SELECT EXISTS (SELECT FROM {schema}.audit_head)"
_NO_RIGHT = errors.InsufficientPrivilege.sqlstate
_ONE_AT_A_TIME = threading.Lock()  # alembic's environment is in module globals


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """`version`: `None`, nothing is there. `oldest`: the first code version that works with it.

    `is_ours`: not another program's, whose migrations are in a table of the same name.
    """

    version: str | None
    oldest: str | None
    lineage: str | None
    is_ours: bool = True

    @property
    def is_of_this_lineage(self) -> bool:
        return self.version is None or self.lineage == lineage()

    def problem(self) -> str | None:
        """Why this code cannot work with it."""
        if not self.is_of_this_lineage:
            return f"its schema {OtherLineage.what(self.version)}"
        if self.version == head() or self._is_newer_and_works_with_this():
            return None
        return f"its schema is at {self.version or 'nothing'}, not {head()}"

    def check_lineage(self, address: Address) -> None:
        """Raises OtherLineage, and DatabaseUnusable if the schema is another program's."""
        if self.is_of_this_lineage:
            return
        if self.is_ours:
            raise OtherLineage.at(address, self.version)
        raise DatabaseUnusable(
            f"schema {quoted(address.schema)} of the database {address} is another program's, whose migrations are "
            f"at {self.version}",
            "set SIGNOFF_DB_SCHEMA to a name of its own",
        )

    def _is_newer_and_works_with_this(self) -> bool:
        return self.version is not None and self.oldest is not None and self.oldest <= head() < self.version


class OtherLineage(DatabaseUnusable):
    """Another text of the first revision made the schema, so no revision leads from there to this one."""

    def __init__(self, place: object, version: str | None, remedy: str) -> None:
        super().__init__(f"{place} {self.what(version)}", remedy)
        self.version = version

    @staticmethod
    def what(version: str | None) -> str:
        return (
            f"was made by another checkout of Signoff, before the first release (version {version}), "
            "and cannot be upgraded"
        )

    @classmethod
    def at(cls, address: Address, version: str | None) -> Self:
        name = quoted(address.schema)
        remedy = (
            "set SIGNOFF_DB_SCHEMA to a new name or DATABASE_URL to an empty database, or give up all its requests, "
            f"runs and audit rows with DROP SCHEMA {name} CASCADE"
        )
        return cls(f"schema {name} of the database {address}", version, remedy)

    def in_folder(self, folder: Path) -> Self:
        """The same about an embedded server's data."""
        remedy = "move that folder away, or delete it if you need nothing of it, and try again"
        return type(self)(f"the data in {folder}", self.version, remedy)


@dataclass(frozen=True, slots=True)
class Target:
    """The schema to migrate, the role that gets rights on it, and the service's login if known."""

    owner: Address
    role: str = APP_ROLE
    login: str | None = None

    @classmethod
    def read(cls, given: Mapping[str, str], environment: Mapping[str, str]) -> Self:
        """Prefer `alembic`'s `-x` arguments to the environment. Raises DatabaseUnusable without an address."""
        url = given.get("url") or environment.get("SIGNOFF_OWNER_URL") or environment.get("DATABASE_URL")
        if not url:
            raise DatabaseUnusable("set SIGNOFF_OWNER_URL or DATABASE_URL to say which database to migrate")
        schema = given.get("schema") or environment.get("SIGNOFF_DB_SCHEMA") or SCHEMA
        service = environment.get("DATABASE_URL")
        login = Address.read(service).user if service and "url" not in given else None
        return cls(Address.read(url, schema), given.get("role", APP_ROLE), login)

    def preparation(self) -> list[str]:
        settings = {
            "signoff.role": self.role,
            "signoff.login": self.login or "",
            "signoff.lineage": lineage(),
        }
        return [
            f"CREATE SCHEMA IF NOT EXISTS {quoted(self.owner.schema)}",
            f"SET LOCAL search_path TO {quoted(self.owner.schema)}, pg_temp",
            *(f"SET LOCAL {name} TO {sql.quote(value)}" for name, value in settings.items()),
        ]


def upgrade(
    url: str, schema: str = SCHEMA, *, owner_url: str | None = None, role: str = APP_ROLE, to: str = "head"
) -> str | None:
    """Upgrade the schema in one transaction; concurrent upgrades wait for each other. Returns its earlier revision.

    `owner_url` creates and owns everything, and the login of `url` joins `role`. Raises DatabaseUnusable in one line,
    and DatabaseUnavailable.
    """
    return _run("upgrade", _target(url, schema, owner_url, role), to)


def downgrade(
    url: str, schema: str = SCHEMA, *, owner_url: str | None = None, role: str = APP_ROLE, to: str = "base"
) -> None:
    """The default target is nothing, which loses all requests, runs and audit rows. Raises like `upgrade`."""
    _run("downgrade", _target(url, schema, owner_url, role), to)


def inspect(url: str, schema: str = SCHEMA, *, role: str = APP_ROLE) -> SchemaVersion:
    """Raises DatabaseUnusable (too old, not readable) and DatabaseUnavailable."""
    address = Address.read(url, schema)
    with _translated_errors(address), _connect(address, autocommit=True) as connection:
        try:
            return _found(connection, schema)
        except errors.InsufficientPrivilege:  # the login has no rights if another role owns the schema
            pass
        try:
            connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
            return _found(connection, schema)
        except (errors.InsufficientPrivilege, errors.InvalidParameterValue):
            raise DatabaseUnusable(
                f"the login of {address} may not assume the role {role}",
                "`signoff db upgrade` grants it, with SIGNOFF_OWNER_URL set to the owner of the schema",
            ) from None


def current(url: str, schema: str = SCHEMA, *, role: str = APP_ROLE) -> str | None:
    """Raises like `inspect`."""
    return inspect(url, schema, role=role).version


@cache
def lineage() -> str:
    """The digest of the first revision's files. The first release replaces it by its value."""
    digest = hashlib.sha256()
    for path in schema_files():
        digest.update(f"{path.name}\n{path.read_text(encoding='utf-8')}".encode())
    return digest.hexdigest()


def schema_files() -> list[Path]:
    """What the first revision executes, in this order."""
    return sorted((migrations_path() / "sql" / _versions()[0]).glob("*.sql"))


def run_file(name: str) -> None:
    """Execute a file of `sql/` literally: no parameters, no doubled `%`."""
    from alembic import context, op  # noqa: PLC0415 - as in `_run`

    statements = (migrations_path() / "sql" / name).read_text(encoding="utf-8")
    if context.is_offline_mode():
        op.get_context().impl.static_output(statements)
    else:
        op.get_bind().exec_driver_sql(statements, execution_options={"no_parameters": True})


def _found(connection: psycopg.Connection[Any], schema: str) -> SchemaVersion:
    version, oldest, marker, ours = (
        _answer(connection, each, schema) for each in (_VERSION, _OLDEST, _LINEAGE, _IS_OURS)
    )
    return SchemaVersion(version, oldest, marker, is_ours=ours is not None)


def _answer(connection: psycopg.Connection[Any], question: LiteralString, schema: str) -> str | None:
    query = sql.SQL(question).format(schema=sql.Identifier(schema))
    try:
        with connection.transaction():
            row = connection.execute(query).fetchone()
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return None
    return str(row[0]) if row else None


@cache
def head() -> str:
    """Return the newest revision of the schema that this code brings, read once per process."""
    return _versions()[-1]


def pending(url: str, schema: str = SCHEMA, *, role: str = APP_ROLE) -> bool:
    """Whether `upgrade` has work. Raises DatabaseUnusable if the schema is too new, and like `check_lineage`."""
    found = inspect(url, schema, role=role)
    found.check_lineage(Address.read(url, schema))
    if found.version is None or found.version in _versions():
        return found.version != head()
    if found.problem() is None:
        return False
    raise DatabaseUnusable(
        f'schema "{schema}" of {Address.read(url)} has version {found.version}; this Signoff is older',
        "install the Signoff that made it, or a later one",
    )


@contextmanager
def session(target: Target) -> Iterator[Connection]:
    """One transaction as the owner, in the schema (created if missing); migrations exclude each other."""
    engine = create_engine(
        "postgresql+psycopg://",
        creator=lambda: _connect(target.owner, autocommit=False),
        poolclass=NullPool,
        use_native_hstore=False,
    )
    schema = target.owner.schema
    with engine.begin() as connection:
        connection.execute(
            text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))"),
            {"name": f"signoff migrates {schema}"},
        )
        exists = connection.scalar(text("SELECT 1 FROM pg_namespace WHERE nspname = :name"), {"name": schema})
        for statement in target.preparation()[1 if exists else 0 :]:
            connection.exec_driver_sql(statement)
        raw: Any = connection.connection.driver_connection
        _found(raw, schema).check_lineage(target.owner)
        yield connection


def _target(url: str, schema: str, owner_url: str | None, role: str) -> Target:
    login = Address.read(url).user if owner_url else None
    return Target(Address.read(owner_url or url, schema), role, login)


def _run(step: str, target: Target, revision: str) -> str | None:
    """Returns the revision that was there."""
    from alembic import command, util  # noqa: PLC0415 - a starting service has nothing to migrate

    config = _config()
    config.attributes["target"] = target
    with _ONE_AT_A_TIME, _translated_errors(target.owner):
        try:
            getattr(command, step)(config, revision)
        except util.CommandError as error:
            raise DatabaseUnusable(
                f"cannot migrate the database {target.owner}: {in_one_line(error)}"
            ) from error
        except (psycopg.Error, exc.DBAPIError) as error:
            if getattr(getattr(error, "orig", error), "sqlstate", None) != _NO_RIGHT:
                raise
            raise DatabaseUnusable(_unprivileged(target, error)) from error
    before: str | None = config.attributes["before"]
    return before


def _unprivileged(target: Target, error: BaseException) -> str:
    asked = in_one_line(error).removeprefix("(psycopg.errors.InsufficientPrivilege) ")
    if "run this once" in asked:  # 9-rights.sql says what to do
        return f"the database {target.owner} refused: {asked}"
    if target.login is None:
        mend = "set SIGNOFF_OWNER_URL to a login that owns the schema, or may create it"
    else:
        mend = "the login of SIGNOFF_OWNER_URL must own the schema, or be allowed to create it"
    return f"the database {target.owner} refused: {asked}; {mend}"


def _config() -> Config:
    from alembic.config import Config  # noqa: PLC0415 - as in `_run`

    config = Config()
    config.set_main_option("script_location", str(migrations_path()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


@cache
def _versions() -> tuple[str, ...]:
    found = (path.name.partition("_")[0] for path in (migrations_path() / "versions").glob("*.py"))
    return tuple(sorted(each for each in found if each.isdigit()))


def _connect(address: Address, *, autocommit: bool) -> psycopg.Connection[Any]:
    connection = psycopg.connect(address.conninfo("signoff migrations"), autocommit=autocommit)
    info = connection.info
    if problem := address.refusal(info.server_version, info.parameter_status("server_encoding")):
        connection.close()
        raise problem
    return connection


@contextmanager
def _translated_errors(address: Address) -> Iterator[None]:
    try:
        yield
    except (psycopg.Error, exc.DBAPIError) as error:
        if getattr(getattr(error, "orig", error), "sqlstate", None) is None:
            raise DatabaseUnavailable(f"cannot reach the database {address}: {in_one_line(error)}") from error
        raise DatabaseUnusable(f"the database {address} refused: {in_one_line(error)}") from error
