"""Migrations need no `alembic.ini` or current directory. Functions block: use `asyncio.to_thread`."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, LiteralString, Self

import psycopg
from psycopg import errors, sql
from sqlalchemy import Connection, NullPool, create_engine, exc, text

from agent.database.address import APP_ROLE, SCHEMA, Address, quoted
from agent.database.errors import DatabaseUnavailable, DatabaseUnusable, in_one_line
from agent.database.locations import migrations_path

if TYPE_CHECKING:
    from alembic.config import Config

_OLDEST: LiteralString = """
SELECT w.oldest FROM {schema}.works_with AS w JOIN {schema}.alembic_version AS a ON a.version_num = w.version
"""
_NO_RIGHT = errors.InsufficientPrivilege.sqlstate
_ONE_AT_A_TIME = threading.Lock()  # alembic's environment is in module globals


@dataclass(frozen=True, slots=True)
class Target:
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
        settings = {"signoff.role": self.role, "signoff.login": self.login or ""}
        return [
            f"CREATE SCHEMA IF NOT EXISTS {quoted(self.owner.schema)}",
            f"SET LOCAL search_path TO {quoted(self.owner.schema)}, pg_temp",
            *(f"SET LOCAL {name} TO {sql.quote(value)}" for name, value in settings.items()),
        ]


def upgrade(
    url: str, schema: str = SCHEMA, *, owner_url: str | None = None, role: str = APP_ROLE, to: str = "head"
) -> None:
    """Upgrade the schema in one transaction; concurrent upgrades wait for each other.

    `owner_url` creates and owns everything, and the login of `url` joins `role`. Raises DatabaseUnusable in one line,
    and DatabaseUnavailable.
    """
    _run("upgrade", _target(url, schema, owner_url, role), to)


def downgrade(
    url: str, schema: str = SCHEMA, *, owner_url: str | None = None, role: str = APP_ROLE, to: str = "base"
) -> None:
    """The default target is nothing, which loses all requests, runs and audit rows. Raises like `upgrade`."""
    _run("downgrade", _target(url, schema, owner_url, role), to)


def current(url: str, schema: str = SCHEMA, *, role: str = APP_ROLE) -> str | None:
    """Raises DatabaseUnusable (too old, not readable) and DatabaseUnavailable."""
    return _ask(Address.read(url, schema), "SELECT version_num FROM {schema}.alembic_version", role)


def is_compatible(found: str | None, oldest: str | None) -> bool:
    """Schema `found` works with code from `oldest` on."""
    mine = head()
    return found == mine or (found is not None and oldest is not None and oldest <= mine < found)


def run_file(name: str) -> None:
    """Execute a file of `sql/` literally: no parameters, no doubled `%`."""
    from alembic import context, op  # noqa: PLC0415 - as in `_run`

    statements = (migrations_path() / "sql" / name).read_text(encoding="utf-8")
    if context.is_offline_mode():
        op.get_context().impl.static_output(statements)
    else:
        op.get_bind().exec_driver_sql(statements, execution_options={"no_parameters": True})


def _ask(address: Address, question: LiteralString, role: str) -> str | None:
    query = sql.SQL(question).format(schema=sql.Identifier(address.schema))
    with _translated_errors(address), _connect(address, autocommit=True) as connection:
        for attempt in ("login", "role"):
            try:
                if attempt == "role":  # the login has no rights if another role owns the schema
                    connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
                row = connection.execute(query).fetchone()
                return str(row[0]) if row else None
            except (errors.UndefinedTable, errors.InvalidSchemaName):
                return None
            except (errors.InsufficientPrivilege, errors.InvalidParameterValue):
                if attempt == "role":
                    raise DatabaseUnusable(
                        f"the login of {address} may not assume the role {role}; `signoff db upgrade` grants it, "
                        "with SIGNOFF_OWNER_URL set to the owner of the schema"
                    ) from None
    raise AssertionError("unreachable")


@cache
def head() -> str:
    return _versions()[-1]


def pending(url: str, schema: str = SCHEMA, *, role: str = APP_ROLE) -> bool:
    """Whether `upgrade` has work. Raises DatabaseUnusable if the schema is too new."""
    found = current(url, schema, role=role)
    if found is not None and found not in _versions():
        if is_compatible(found, _ask(Address.read(url, schema), _OLDEST, role)):
            return False
        raise DatabaseUnusable(
            f'schema "{schema}" of {Address.read(url)} has version {found}; this Signoff is older'
        )
    return found != head()


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
        yield connection


def _target(url: str, schema: str, owner_url: str | None, role: str) -> Target:
    login = Address.read(url).user if owner_url else None
    return Target(Address.read(owner_url or url, schema), role, login)


def _run(step: str, target: Target, revision: str) -> None:
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


def _unprivileged(target: Target, error: BaseException) -> str:
    asked = in_one_line(error).removeprefix("(psycopg.errors.InsufficientPrivilege) ")
    if "run this once" in asked:  # 0001-rights.sql says what to do
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
