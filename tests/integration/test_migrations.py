"""The schema's versions: there and back, alone and at the same moment, with much and with little rights."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine

from agent.database import locations, migrations
from agent.database.address import APP_ROLE, Address
from agent.database.errors import DatabaseUnavailable, DatabaseUnusable
from agent.database.migrations import OtherLineage
from agent.store.tables import metadata
from tests.integration import next_revision
from tests.warm_python import program

ROOT = Path(__file__).resolve().parents[2]

DESCRIBED = """
    SELECT 'column', concat_ws(' ', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull)
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relnamespace = %(schema)s::regnamespace AND c.relkind = 'r' AND a.attnum > 0
          AND NOT a.attisdropped
    UNION ALL
    SELECT 'enum', concat_ws(' ', t.typname, enumlabel, row_number() OVER (PARTITION BY t.oid ORDER BY enumsortorder))
        FROM pg_enum e JOIN pg_type t ON t.oid = e.enumtypid WHERE t.typnamespace = %(schema)s::regnamespace
"""
OBJECTS = f"""
    {DESCRIBED}
    UNION ALL
    SELECT 'relation', concat(relname, ' ', relkind)
        FROM pg_class WHERE relnamespace = %(schema)s::regnamespace
    UNION ALL
    SELECT 'default', concat_ws(' ', adrelid::regclass, attname, pg_get_expr(adbin, adrelid))
        FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
        JOIN pg_class c ON c.oid = adrelid WHERE relnamespace = %(schema)s::regnamespace
    UNION ALL
    SELECT 'constraint', concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid))
        FROM pg_constraint WHERE connamespace = %(schema)s::regnamespace AND contype <> 't'
    UNION ALL
    SELECT 'index', indexdef FROM pg_indexes WHERE schemaname = %(schema)s::name
    UNION ALL
    SELECT 'function', oid::regprocedure::text FROM pg_proc WHERE pronamespace = %(schema)s::regnamespace
    UNION ALL
    SELECT 'type', typname FROM pg_type WHERE typnamespace = %(schema)s::regnamespace
    UNION ALL
    SELECT 'trigger', tgname FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid
        WHERE relnamespace = %(schema)s::regnamespace AND NOT tgisinternal
"""


def objects(url: str, query: str = OBJECTS, schema: str = "signoff") -> set[tuple[str, str]]:
    """What the catalogue says about a schema, spelled as if that were the only one."""
    with psycopg.connect(Address.read(url, schema).conninfo()) as connection:
        rows = connection.execute(query, {"schema": schema}).fetchall()
    return {(kind, words.replace(f"{schema}.", "")) for kind, words in rows}


def test_up_down_up(empty_url: str) -> None:
    """Upgrading, downgrading to nothing and upgrading again gives the same objects."""
    migrations.upgrade(empty_url)
    first = objects(empty_url)
    assert ("relation", "pending_reviews v") in first

    migrations.downgrade(empty_url)
    left = objects(empty_url)
    assert {name.split()[0] for kind, name in left if kind == "relation"} == {
        "alembic_version",
        "alembic_version_pkc",
    }
    assert not {kind for kind, _ in left} & {"enum", "function", "trigger"}

    migrations.upgrade(empty_url)
    assert objects(empty_url) == first


def test_downgrade_leaves_what_is_not_ours(empty_url: str) -> None:
    """Somebody else's table in the same schema survives the way down."""
    migrations.upgrade(empty_url)
    with psycopg.connect(Address.read(empty_url).conninfo()) as connection:
        connection.execute("CREATE TABLE theirs (id integer)")
    migrations.downgrade(empty_url)
    assert ("relation", "theirs r") in objects(empty_url)


def test_what_composed_reads_name_is_there(database_url: str) -> None:
    """The tables, columns and enums that the code describes are in the migrated database, of the same types."""
    described = Address.read(database_url, "described")
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(described.conninfo()))
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE SCHEMA described")
        metadata.create_all(connection, checkfirst=False)
    engine.dispose()
    assert objects(database_url, DESCRIBED, "described") <= objects(database_url, DESCRIBED)


def test_version_is_told(empty_url: str) -> None:
    """`current` and `pending` follow the database from nothing to head."""
    assert migrations.current(empty_url) is None
    assert migrations.pending(empty_url)
    migrations.upgrade(empty_url)
    assert migrations.current(empty_url) == migrations.head()
    assert not migrations.pending(empty_url)


RUN = """
    INSERT INTO agent_run (id, agent, agent_version, task, principal, requester_asserted)
    VALUES (gen_random_uuid(), %s, '1', 'task', 'cli', 'none')
"""


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """A copy of `alembic/`."""
    return Path(shutil.copytree(locations.migrations_path(), tmp_path / "alembic"))


def test_an_additive_revision_keeps_rows_and_older_processes(empty_url: str, scripts: Path) -> None:
    """A later version upgrades what the first one wrote; processes of the first go on, and migrate nothing."""
    migrations.upgrade(empty_url)
    first, mine = objects(empty_url), migrations.head()
    later = next_revision.write(scripts)
    with psycopg.connect(Address.read(empty_url, role=APP_ROLE).conninfo(), autocommit=True) as worker:
        worker.execute(RUN, ["before"])
        with next_revision.code_with(scripts):
            assert migrations.pending(empty_url)
            migrations.upgrade(empty_url)
            assert (migrations.current(empty_url), migrations.head()) == (later, later)
            assert not migrations.pending(empty_url)
        worker.execute(RUN, ["after"])
        assert dict(worker.execute("SELECT agent, remarks FROM agent_run").fetchall()) == {
            "before": 0,
            "after": 0,
        }
    assert not migrations.pending(empty_url)
    assert migrations.inspect(empty_url).problem() is None
    with pytest.raises(DatabaseUnusable, match=later):
        migrations.upgrade(empty_url)
    with next_revision.code_with(scripts):
        migrations.downgrade(empty_url, to=mine)
    assert objects(empty_url) == first


def test_a_revision_that_is_taken_back_whole(empty_url: str, scripts: Path) -> None:
    """Down to nothing, nothing of either revision is left, and up again leads to the same."""
    next_revision.write(scripts)
    with next_revision.code_with(scripts):
        migrations.upgrade(empty_url)
        both = objects(empty_url)
        migrations.downgrade(empty_url)
        assert not {kind for kind, _ in objects(empty_url)} & {"enum", "function", "trigger"}
        migrations.upgrade(empty_url)
    assert objects(empty_url) == both


OF_AN_EARLIER_CHECKOUT = """
    CREATE SCHEMA signoff;
    CREATE TABLE signoff.alembic_version (version_num text);
    INSERT INTO signoff.alembic_version VALUES ('%s');
    CREATE TABLE signoff.audit_head (subject text);
"""


@pytest.mark.parametrize("version", ["0001", "0033", migrations.head(), "9999"])
def test_a_database_of_an_earlier_checkout_is_refused(empty_url: str, version: str) -> None:
    """No revision leads from there to here: one line says so and what to do, and nothing is changed."""
    with psycopg.connect(empty_url.replace("+psycopg", "")) as connection:
        connection.execute(OF_AN_EARLIER_CHECKOUT.replace("%s", version))
    before = objects(empty_url)
    for act in (migrations.pending, migrations.upgrade, migrations.downgrade):
        with pytest.raises(OtherLineage) as caught:
            act(empty_url)
        assert re.fullmatch(
            r'schema "signoff" of the database \S+ was made by another checkout of Signoff, before the first release '
            rf"\(version {version}\), and cannot be upgraded; set SIGNOFF_DB_SCHEMA to a new name or DATABASE_URL "
            r'to an empty database, or .*DROP SCHEMA "signoff" CASCADE',
            str(caught.value),
        )
    assert objects(empty_url) == before
    assert migrations.current(empty_url) == version
    migrations.upgrade(empty_url, "another")
    assert not migrations.pending(empty_url, "another")


def test_another_programs_migrations_are_not_taken_for_ours(empty_url: str) -> None:
    """In a schema with an `alembic_version` of somebody else, nobody is told to drop anything."""
    with psycopg.connect(empty_url.replace("+psycopg", "")) as connection:
        connection.execute("CREATE TABLE public.alembic_version (version_num text)")
        connection.execute("INSERT INTO public.alembic_version VALUES ('0001')")
    for act in (migrations.pending, migrations.upgrade, migrations.downgrade):
        with pytest.raises(DatabaseUnusable) as caught:
            act(empty_url, "public")
        assert re.fullmatch(
            r'schema "public" of the database \S+ is another program\'s, whose migrations are at 0001; '
            "set SIGNOFF_DB_SCHEMA to a name of its own",
            str(caught.value),
        )


@pytest.mark.parametrize("file", ["1-audit.sql", "9-rights.sql"])
def test_a_database_by_another_text_of_the_first_revision_is_refused(
    empty_url: str, scripts: Path, file: str
) -> None:
    """Its number is the same, its tables may not be: whichever file differs, neither code works with the other's."""
    with (scripts / "sql" / "0100" / file).open("a") as text:
        text.write("-- one more line\n")
    with next_revision.code_with(scripts):
        migrations.upgrade(empty_url)
        assert not migrations.pending(empty_url)
    for act in (migrations.pending, migrations.upgrade, migrations.downgrade):
        with pytest.raises(OtherLineage, match=rf"\(version {migrations.head()}\)"):
            act(empty_url)
    next_revision.write(scripts)
    with next_revision.code_with(scripts):
        migrations.upgrade(empty_url)  # that a revision follows changes nothing
        migrations.downgrade(empty_url)
    migrations.upgrade(empty_url)


def test_a_login_without_rights_learns_of_the_lineage(
    logins: dict[str, str], fresh_role: str, scripts: Path
) -> None:
    """The service's own login, which only takes on its role, is refused as well."""
    (scripts / "sql" / "0100" / "1-audit.sql").open("a").write("-- one more line\n")
    with next_revision.code_with(scripts):
        migrations.upgrade(
            logins["service"], owner_url=logins["owner"].replace("owner@", "postgres@"), role=fresh_role
        )
        assert not migrations.pending(logins["service"], role=fresh_role)
    with pytest.raises(OtherLineage):
        migrations.pending(logins["service"], role=fresh_role)


def test_a_newer_schema_that_works_with_this_version(
    database_url: str, owner: psycopg.Connection[Any]
) -> None:
    """While a newer version is rolled out, processes of this one start, but migrate nothing."""
    owner.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(DatabaseUnusable, match="9999"):  # the view speaks of the version before
        migrations.pending(database_url)
    mine = migrations.head()
    owner.execute(
        f"CREATE OR REPLACE VIEW works_with AS SELECT '9999'::text AS version, '{mine}'::text AS oldest"
    )
    assert not migrations.pending(database_url)
    with pytest.raises(DatabaseUnusable, match="9999"):
        migrations.upgrade(database_url)


def test_newer_schema_is_not_touched(database_url: str, owner: psycopg.Connection[Any]) -> None:
    """A database that a newer Signoff has migrated is refused, in one line that names its version."""
    owner.execute("UPDATE alembic_version SET version_num = '9999'")
    owner.execute(
        "CREATE OR REPLACE VIEW works_with AS SELECT '9999'::text AS version, '9999'::text AS oldest"
    )
    for look in (migrations.pending, migrations.upgrade):
        with pytest.raises(DatabaseUnusable, match="9999") as caught:
            look(database_url)
        assert "\n" not in str(caught.value)


def test_another_schema(empty_url: str) -> None:
    """All of it goes into the schema that was asked for, even one whose name needs quotes."""
    migrations.upgrade(empty_url, "My Approvals")
    assert migrations.current(empty_url, "My Approvals") == migrations.head()
    assert migrations.current(empty_url) is None
    migrations.downgrade(empty_url, "My Approvals")


def in_parallel(folder: Path, *calls: str) -> list[subprocess.Popen[str]]:
    command = program(folder, "import sys; from agent.database import migrations; eval(sys.argv[1])")
    return [
        subprocess.Popen([*command, f"migrations.{call}"], stderr=subprocess.PIPE, text=True, cwd=ROOT)
        for call in calls
    ]


def finish(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said


def test_two_upgrades_at_once(empty_url: str, postgres: Any, tmp_path: Path) -> None:
    """Two processes that upgrade at the same moment both succeed: one migrates, the other finds it done."""
    name = Address.read(empty_url).parameters["dbname"]
    with psycopg.connect(empty_url.replace("+psycopg", "")) as gate:
        gate.execute("SELECT pg_advisory_lock(hashtextextended('signoff migrates signoff', 0))")
        gate.commit()
        both = in_parallel(tmp_path, f"upgrade({empty_url!r})", f"upgrade({empty_url!r})")
        waiting = """SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database
                     WHERE locktype = 'advisory' AND NOT granted AND datname = %s"""
        deadline = time.monotonic() + 30
        while postgres.admin.execute(waiting, [name]).fetchone()[0] < 2:
            assert time.monotonic() < deadline
    finish(both)
    assert not migrations.pending(empty_url)


def test_two_databases_share_the_role(empty_url: str, postgres: Any, fresh_role: str, tmp_path: Path) -> None:
    """Upgrades of two databases of one server at once both succeed, though both need the same new role."""
    other = postgres.create()
    try:
        urls = [empty_url, postgres.url(other)]
        finish(in_parallel(tmp_path, *(f"upgrade({url!r}, role={fresh_role!r})" for url in urls)))

        migrations.downgrade(urls[0], role=fresh_role)
        assert role_exists(postgres, fresh_role), "another database still uses it"
        migrations.downgrade(urls[1], role=fresh_role)
        assert not role_exists(postgres, fresh_role)
    finally:
        postgres.drop(other)


def role_exists(postgres: Any, name: str) -> bool:
    return bool(postgres.admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [name]).fetchone())


@pytest.fixture
def fresh_role(postgres: Any) -> Iterator[str]:
    """The name of a role that does not exist yet."""
    yield "app_of_the_test"
    postgres.admin.execute("DROP ROLE IF EXISTS app_of_the_test")


@pytest.fixture
def logins(postgres: Any, empty_url: str, fresh_role: str) -> Iterator[dict[str, str]]:
    """The addresses of an `owner`, who may only create in this database, and of a plain `service`."""
    # `fresh_role` is asked for so that it is dropped last, when nothing depends on it any more.
    name = Address.read(empty_url).parameters["dbname"]
    for login in ("owner", "service"):
        postgres.admin.execute(f"CREATE ROLE {login} LOGIN")
    postgres.admin.execute(f"GRANT CREATE ON DATABASE {name} TO owner")
    yield {login: empty_url.replace("postgres@", f"{login}@") for login in ("owner", "service")}
    postgres.drop(name)
    for login in ("owner", "service"):
        postgres.admin.execute(f"DROP OWNED BY {login}")
        postgres.admin.execute(f"DROP ROLE {login}")


async def test_owner_apart_from_service(logins: dict[str, str], postgres: Any, fresh_role: str) -> None:
    """The owner migrates, and the service's own login can then work with the role's rights and no others."""
    from agent.database.pools import Database  # noqa: PLC0415

    postgres.admin.execute("ALTER ROLE owner CREATEROLE")
    migrations.upgrade(logins["service"], owner_url=logins["owner"], role=fresh_role)

    assert not migrations.pending(logins["service"], role=fresh_role)
    async with Database(logins["service"], role=fresh_role) as database, database.connection() as connection:
        found = await connection.exec_driver_sql("SELECT current_user, session_user FROM agent_run")
        assert found.all() == []
    with pytest.raises(DatabaseUnusable, match="must be owner"):
        migrations.downgrade(logins["service"], role=fresh_role)
    migrations.downgrade(logins["service"], owner_url=logins["owner"], role=fresh_role)
    assert not role_exists(postgres, fresh_role)


def test_no_right_to_create_roles(logins: dict[str, str], postgres: Any, fresh_role: str) -> None:
    """Without the right to create roles one line says what to run; once that was run, it works."""
    with pytest.raises(DatabaseUnusable) as caught:
        migrations.upgrade(logins["owner"], role=fresh_role)
    message = str(caught.value)
    command = f"CREATE ROLE {fresh_role} NOLOGIN; GRANT {fresh_role} TO owner;"
    assert command in message
    assert "\n" not in message
    postgres.admin.execute(command)
    migrations.upgrade(logins["owner"], role=fresh_role)
    assert not migrations.pending(logins["owner"], role=fresh_role)


def test_a_login_without_rights_is_told_of_the_owners_setting(
    logins: dict[str, str], fresh_role: str
) -> None:
    """Without the right to migrate or to use the service's role, the error is one line that names SIGNOFF_OWNER_URL."""
    wanted = r"permission denied for database [^\n]*; set SIGNOFF_OWNER_URL to a login that [^\n]*\Z"
    with pytest.raises(DatabaseUnusable, match=wanted):
        migrations.upgrade(logins["service"], role=fresh_role)
    with pytest.raises(DatabaseUnusable, match=r"; the login of SIGNOFF_OWNER_URL must [^\n]*\Z"):
        migrations.upgrade(logins["service"], owner_url=logins["service"], role=fresh_role)
    migrations.upgrade(logins["owner"].replace("owner@", "postgres@"), role=fresh_role)
    with pytest.raises(
        DatabaseUnusable, match=r"may not assume the role app_of_the_test; [^\n]*SIGNOFF_OWNER"
    ):
        migrations.pending(logins["service"], role=fresh_role)


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_the_encoding_is_looked_at_before_anything_is_made(postgres: Any, encoding: str) -> None:
    """A database that cannot hold every character is refused in one line that says how to make one that can."""
    name = f"encoded_{encoding.lower()}"
    postgres.admin.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'")
    try:
        with pytest.raises(DatabaseUnusable, match=rf"\A[^\n]*{encoding}[^\n]*ENCODING 'UTF8'\Z"):
            migrations.upgrade(postgres.url(name))
    finally:
        postgres.drop(name)


def test_unreachable_is_one_line(tmp_path: Path) -> None:
    """A database that is not there is named in one line, without the password."""
    with pytest.raises(DatabaseUnavailable) as caught:
        migrations.upgrade(f"postgresql://someone:s3cret@/nowhere?host={tmp_path}")
    message = str(caught.value)
    assert "someone@" in message
    assert "s3cret" not in message
    assert "\n" not in message


@pytest.mark.parametrize("url", ["mysql://u:s3cret@h/d", "postgresql://u:s3cret@h:port/d?nonsense=1", ""])
def test_bad_address(url: str) -> None:
    """What is no PostgreSQL address is refused without being repeated."""
    with pytest.raises(DatabaseUnusable) as caught:
        migrations.current(url)
    assert "s3cret" not in str(caught.value)


def test_as_installed_from_a_wheel(empty_url: str, tmp_path: Path) -> None:
    """With the migrations packed beside the store, as in the wheel, upgrading works from any directory."""
    shutil.copytree(ROOT / "agent", tmp_path / "site" / "agent")
    shutil.copytree(locations.migrations_path(), tmp_path / "site" / "agent" / "database" / "_alembic")
    (tmp_path / "elsewhere").mkdir()
    libraries = [entry for entry in sys.path if "site-packages" in entry]
    code = f"""
from agent.database import locations, migrations
assert locations.migrations_path().name == "_alembic"
migrations.upgrade({empty_url!r})
assert not migrations.pending({empty_url!r})
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), *libraries])}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path / "elsewhere", env=environment)


def test_library_is_not_shadowed() -> None:
    """Beside our folder `alembic`, `import alembic` still means the library."""
    code = "import alembic, alembic.command; assert 'site-packages' in alembic.__file__, alembic.__file__"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


RIGHTS = """
    SELECT c.relname, string_agg(a.privilege_type, ' ' ORDER BY a.privilege_type)
        FROM pg_class c, aclexplode(c.relacl) a
        WHERE c.relnamespace = 'signoff'::regnamespace AND a.grantee = 'signoff_app'::regrole
        GROUP BY c.relname
"""
READ, APPEND, WRITE, ALL = "SELECT", "INSERT SELECT", "INSERT SELECT UPDATE", "DELETE INSERT SELECT UPDATE"


def test_rights_of_the_service(owner: psycopg.Connection[Any]) -> None:
    """The service's role has these rights and no others, and neither has the public any."""
    assert dict(owner.execute(RIGHTS).fetchall()) == {
        "alembic_version": READ,
        "pending_reviews": READ,
        "works_with": READ,
        "lineage": READ,
        "limit_use_open": READ,
        "limit_use": ALL,
        "limit_sum": ALL,
        **dict.fromkeys(
            [
                "run_message",
                "request_revision",
                "vote",
                "answer",
                "decision",
                "retry_vote",
                "settlement",
                "audit_event",
                "grant_use",
                "judgement",
                "told_week",
                "policy",
                "rule",
            ],
            APPEND,
        ),
        **dict.fromkeys(
            ["agent_run", "tool_call", "approval_request", "execution", "card_place", "audit_head"], WRITE
        ),
        **dict.fromkeys(["admin_channel", "api_key", "approval_grant", "notify_choice", "webhook"], WRITE),
        **dict.fromkeys(["schedule", "schedule_start"], ALL),
        **dict.fromkeys(["pause", "notice", "key_use", "http_reply", "sign_in_link", "web_session"], ALL),
        **dict.fromkeys(["outlet", "digest_card", "request_group"], ALL),
        **dict.fromkeys(["delivery", "request_search", "search_due"], ALL),
    }
    columns = """
        SELECT attrelid::regclass::text, attname, privilege_type FROM pg_attribute, aclexplode(attacl)
        WHERE grantee = 'signoff_app'::regrole
    """
    assert owner.execute(columns).fetchall() == [("vote", "superseded_by", "UPDATE")]
    assert owner.execute("SELECT has_schema_privilege('signoff_app', 'signoff', 'CREATE')").fetchone() == (
        False,
    )
    public = """
        SELECT relname FROM pg_class, aclexplode(relacl)
        WHERE grantee = 0 AND relnamespace = 'signoff'::regnamespace
    """
    assert owner.execute(public).fetchall() == []
    role = """
        SELECT rolcanlogin, rolsuper, rolcreaterole, rolcreatedb, rolbypassrls
        FROM pg_roles WHERE rolname = 'signoff_app'
    """
    assert owner.execute(role).fetchone() == (False,) * 5
