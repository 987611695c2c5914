"""The command `signoff`: what is wrong is said in one line that names it, with exit code 2 and no traceback."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import shutil
import socket
import urllib.request
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Any

import psycopg
import pytest
import structlog
from sqlalchemy import text

from agent.database import embedded_server, migrations
from agent.database.address import Address
from agent.database.pools import Database
from agent.domain import checkpoints
from agent.domain.audit import AuditKind
from agent.domain.policy import Policy
from agent.store import audit
from agent.usecases import policy as policies
from signoff_demo.sandbox import SlackSandbox
from slackbot import settings
from slackbot.service import logs
from tests.conftest import new_home
from tests.integration.command import APP_TOKEN, BOT_TOKEN, CHECKPOINTS, PASSWORD, SECRETS, SIGNING, Command
from tests.integration.crash.process import Serve
from tests.integration.service.conftest import until

Postgres = Any

# --- settings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"SLACK_BOT_TOKEN": "xoxp-7465"}, "SLACK_BOT_TOKEN: must begin with xoxb-"),
        ({"SLACK_APP_TOKEN": "7465"}, "SLACK_APP_TOKEN: must begin with xapp-"),
        ({"SLACK_API_URL": "slack.com"}, "SLACK_API_URL: must begin with https://"),
        ({"SIGNOFF_ROLES": "web,boss"}, "SIGNOFF_ROLES: there is no role boss"),
        ({"SIGNOFF_ROLES": ","}, "SIGNOFF_ROLES: name at least one"),
        ({"SIGNOFF_PORT": "eighty"}, "SIGNOFF_PORT: "),
        ({"SIGNOFF_PORT": "65536"}, "SIGNOFF_PORT: "),
        ({"SIGNOFF_LOG_LEVEL": "LOUD"}, "SIGNOFF_LOG_LEVEL: Input should be 'DEBUG', 'INFO'"),
        ({"SIGNOFF_LOG_FORMAT": "xml"}, "SIGNOFF_LOG_FORMAT: Input should be 'text' or 'json'"),
        ({"SIGNOFF_CONCURRENCY": "0"}, "SIGNOFF_CONCURRENCY: "),
        ({"SIGNOFF_DRAIN_SECONDS": "-1"}, "SIGNOFF_DRAIN_SECONDS: "),
        ({"SIGNOFF_DB_SCHEMA": "drop table"}, "SIGNOFF_DB_SCHEMA: "),
        ({"DATABASE_URL": f"mysql://u:{PASSWORD}@h/d"}, "DATABASE_URL: the database address has to begin"),
        ({"SIGNOFF_OWNER_URL": f"{PASSWORD}"}, "SIGNOFF_OWNER_URL: the database address has to begin"),
        ({"SLACK_BOT_TOKEN_FILE": "token"}, "SLACK_BOT_TOKEN and SLACK_BOT_TOKEN_FILE are both set"),
        (
            {"SLACK_BOT_TOKEN": None, "SLACK_BOT_TOKEN_FILE": "nowhere"},
            "SLACK_BOT_TOKEN_FILE: cannot read nowhere",
        ),
        ({"SLACK_BOT_TOKEN": None}, "SLACK_BOT_TOKEN is not set"),
        ({"SLACK_APP_TOKEN": None}, "set SLACK_APP_TOKEN for Socket Mode, or SLACK_SIGNING_SECRET for HTTP"),
        ({"SIGNOFF_CHANNEL": None}, "SIGNOFF_CHANNEL"),
        (
            {"SIGNOFF_CORS_ORIGINS": "https://a.example.com *"},
            "SIGNOFF_CORS_ORIGINS: must be only scheme and host",
        ),
        (
            {"SIGNOFF_AGENTS": "no_such_module"},
            "cannot import no_such_module: no such module in this directory",
        ),
        ({"SIGNOFF_AGENTS": "json"}, "json has no Agent"),
        ({"SIGNOFF_CHECKPOINTS": "nowhere.toml"}, "SIGNOFF_CHECKPOINTS: there is no file nowhere.toml"),
        ({"SIGNOFF_CHECKPOINTS": "."}, "SIGNOFF_CHECKPOINTS: cannot read ."),
    ],
    ids=str,
)
def test_a_wrong_setting_is_named_in_one_line(
    signoff: Command, changes: dict[str, str | None], words: str
) -> None:
    """One line with the setting's name and what is wrong; not its value when that is a secret."""
    [line] = signoff.is_wrong("serve", **changes)
    assert words in line


def test_everything_wrong_is_said_at_once(signoff: Command) -> None:
    """Two wrong settings are two lines, so that nobody has to start twice to find the second."""
    lines = signoff.is_wrong("serve", SLACK_BOT_TOKEN="7465", SIGNOFF_PORT="x", SLACK_APP_TOKEN="x")
    assert [line.split(":")[1].strip() for line in lines] == [
        "SLACK_BOT_TOKEN",
        "SLACK_APP_TOKEN",
        "SIGNOFF_PORT",
    ]


def test_no_database_names_both_ways_out(signoff: Command) -> None:
    """Neither DATABASE_URL nor --embedded: the line names both."""
    [line] = signoff.is_wrong("serve", DATABASE_URL=None)
    assert "DATABASE_URL" in line
    assert "--embedded" in line


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("[defaults]\nfoo = 1\n", (":2:", "foo")),
        ("[defaults\n", (":1:",)),
        (
            '[[checkpoint]]\ncheckpoint_id = "a"\naction_pattern = "("\napprovers = ["channel"]\n',
            (":3:", "action_pattern"),
        ),
    ],
)
def test_a_bad_checkpoints_file_is_named_with_its_line(
    signoff: Command, toml: str, words: tuple[str, ...]
) -> None:
    """File and line of the mistake are in the message, and nothing is started."""
    (signoff.folder / "checkpoints.toml").write_text(toml)
    said = "\n".join(signoff.is_wrong("serve"))
    assert all(word in said for word in ("checkpoints.toml", *words)), said


def test_an_agents_module_that_fails_is_named_with_its_line(signoff: Command) -> None:
    """Whatever a module raises while it is imported becomes one line with file and line."""
    (signoff.folder / "broken.py").write_text("x = 1\nraise RuntimeError('not\\ntoday')\n")
    [line] = signoff.is_wrong("check", SIGNOFF_AGENTS="broken")
    assert "cannot import broken: RuntimeError: not today" in line
    assert "(broken.py:2)" in line


def test_settings_never_show_their_secrets(tmp_path: Path) -> None:
    """Neither repr nor str of the settings has a secret in it, also when it came from a file."""
    (tmp_path / "signing").write_text(f"{SIGNING}\n")
    given = {
        "DATABASE_URL": f"postgresql://u:{PASSWORD}@h/d",
        "SLACK_BOT_TOKEN": BOT_TOKEN,
        "SLACK_APP_TOKEN": APP_TOKEN,
        "SLACK_SIGNING_SECRET_FILE": str(tmp_path / "signing"),
    }
    configured = settings.read(given, folder=tmp_path)
    assert configured.slack_signing_secret is not None
    assert configured.slack_signing_secret.get_secret_value() == SIGNING
    shown = f"{configured!r} {configured} {configured.model_dump()}"
    assert not any(secret in shown for secret in SECRETS)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_logged_traceback_shows_no_local_variables(
    signoff: Command, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    """What a function held when it failed, a token say, does not get into the log with the failure."""
    del signoff  # it restores the logging that is configured here
    logs.configure("INFO", form)

    def connect(token: str) -> None:
        raise OSError(f"refused after {len(token)} characters")

    try:
        connect(BOT_TOKEN)
    except OSError:
        structlog.get_logger("test").exception("it failed")
        logging.getLogger("test").exception("it failed")
    said = capsys.readouterr().err
    assert said.count("refused after 21 characters") == 2
    assert BOT_TOKEN not in said


def test_the_environment_wins_over_dotenv_and_the_command_line_over_both(tmp_path: Path) -> None:
    """`.env` fills in what the environment leaves open; an option of the command overrides them."""
    (tmp_path / ".env").write_text("SIGNOFF_PORT=1\nSIGNOFF_CHANNEL=C1\nSIGNOFF_MODEL=m\n")
    read = settings.read({"SIGNOFF_PORT": "2", "SIGNOFF_CHANNEL": "C2"}, tmp_path, {"SIGNOFF_PORT": "3"})
    assert (read.port, read.channel, read.model) == (3, "C2", "m")


# --- the database -----------------------------------------------------------------------------------------


def test_an_unreachable_database_is_one_line(signoff: Command) -> None:
    """Nobody listens there: who and where is said, without the password."""
    [line] = signoff.is_wrong("serve", DATABASE_URL=f"postgresql://u:{PASSWORD}@127.0.0.1:9/d")
    assert "cannot reach the database u@127.0.0.1:9/d" in line


def test_a_database_of_the_wrong_name_is_one_line(signoff: Command, database_url: str) -> None:
    """The server is there, the database is not."""
    [line] = signoff.is_wrong("serve", DATABASE_URL=database_url.replace("/test_", "/no_such_"))
    assert "does not exist" in line


def test_a_wrong_password_is_one_line_without_it(
    signoff: Command, postgres: Postgres, database_url: str
) -> None:
    """The server refuses the password; the line says so without repeating it."""
    rules = postgres.server.data_dir / "pg_hba.conf"
    before = rules.read_text()
    postgres.admin.execute("CREATE ROLE locked LOGIN PASSWORD 'another one'")
    try:
        rules.write_text(f"local all locked scram-sha-256\n{before}")
        postgres.admin.execute("SELECT pg_reload_conf()")
        address = Address.read(database_url)
        url = f"postgresql://locked:{PASSWORD}@/{address.parameters['dbname']}?host={address.parameters['host']}"
        deadline = monotonic() + 10
        while monotonic() < deadline and _lets_in(url):
            sleep(0.02)
        [line] = signoff.is_wrong("serve", DATABASE_URL=url)
        assert "password authentication failed" in line
    finally:
        rules.write_text(before)
        postgres.admin.execute("SELECT pg_reload_conf()")
        postgres.admin.execute("DROP ROLE locked")


def _lets_in(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.mark.parametrize("arguments", [("serve",), ("audit", "verify")])
def test_an_outdated_schema_is_refused_with_the_command_to_run(
    signoff: Command, empty_url: str, arguments: tuple[str, ...]
) -> None:
    """Nothing migrates an external database by itself; the line names `signoff db upgrade`."""
    [line] = signoff.is_wrong(*arguments, DATABASE_URL=empty_url)
    assert "signoff db upgrade" in line


def test_db_upgrade_can_be_repeated(signoff: Command, empty_url: str) -> None:
    """The second upgrade finds nothing to do, and each prints one line of Signoff's own, none of its library's."""
    assert "at nothing" in signoff("db", "current", DATABASE_URL=empty_url).said
    for words in ("now, before at nothing", "already"):
        ended = signoff("db", "upgrade", DATABASE_URL=empty_url)
        assert ended.status == 0, ended.said
        assert ended.said == f"schema 'signoff' is at revision {migrations.head()} {words}\n"
    assert (
        f"at {migrations.head()}, needs {migrations.head()}"
        in signoff("db", "current", DATABASE_URL=empty_url).said
    )


@pytest.mark.parametrize("arguments", [("serve",), ("db", "upgrade"), ("runs", "list"), ("audit", "verify")])
def test_a_schema_of_another_checkout_is_refused_in_one_line(
    signoff: Command, database_url: str, owner: psycopg.Connection[Any], arguments: tuple[str, ...]
) -> None:
    """Nothing leads from there to here: the line says what to do, and `db current` why."""
    owner.execute("CREATE OR REPLACE VIEW lineage AS SELECT 'another'::text AS marker")
    [line] = signoff.is_wrong(*arguments)
    assert "was made by another checkout of Signoff" in line
    assert 'DROP SCHEMA "signoff" CASCADE' in line
    assert f"at {migrations.head()}, made by another checkout, needs" in signoff("db", "current").said


@pytest.mark.parametrize("arguments", [("serve",), ("db", "upgrade"), ("pause", "agent")])
def test_embedded_data_of_another_checkout_is_left_alone(
    signoff: Command, embedded_home: Path, arguments: tuple[str, ...]
) -> None:
    """The line names the folder to move away; what is in it stays, and once it is moved, everything begins anew."""
    folder = embedded_home / "postgres"
    with embedded(folder) as owner:
        migrations.upgrade(owner)
        with psycopg.connect(Address.read(owner).conninfo(), autocommit=True) as connection:
            connection.execute("CREATE OR REPLACE VIEW lineage AS SELECT 'another'::text AS marker")
            connection.execute("INSERT INTO pause (scope, by) VALUES ('*', 'cli:ada')")
    settings = {"SIGNOFF_HOME": str(embedded_home), "DATABASE_URL": None}
    [line] = signoff.is_wrong(*arguments, "--embedded", **settings)
    assert f"the data in {folder} was made by another checkout of Signoff" in line
    assert "move that folder away" in line
    with embedded(folder) as owner, psycopg.connect(Address.read(owner).conninfo()) as connection:
        assert connection.execute("SELECT by FROM pause").fetchall() == [("cli:ada",)]
    folder.rename(embedded_home / "before")
    assert signoff("db", "upgrade", "--embedded", **settings).status == 0


@pytest.fixture
def embedded_home() -> Iterator[Path]:
    """For `SIGNOFF_HOME`, where the server's own user may pass."""
    home = new_home()
    yield home
    shutil.rmtree(home, ignore_errors=True)


@contextmanager
def embedded(folder: Path) -> Iterator[str]:
    server = embedded_server.start(folder, durable=False)
    try:
        yield server.url
    finally:
        server.stop()


def test_audit_verify_finds_a_changed_row(
    signoff: Command, database_url: str, owner: psycopg.Connection[Any]
) -> None:
    """Exit code 0 while the chains hold; 1 after the owner, triggers off, has changed an event."""
    asyncio.run(_record_policies(database_url, b"digest"))
    ended = signoff("audit", "verify")
    assert (ended.status, ended.said) == (0, "1 events verified, 0 problems\n")
    owner.execute("ALTER TABLE audit_event DISABLE TRIGGER ALL")
    owner.execute("UPDATE audit_event SET at = at + interval '1 s'")
    ended = signoff("audit", "verify")
    assert ended.status == 1
    assert "1 problems" in ended.said
    assert "policy" in ended.said


@pytest.mark.parametrize("problems", [0, 1])
def test_audit_verify_beside_what_is_recorded_meanwhile(
    signoff: Command, database_url: str, owner: psycopg.Connection[Any], problems: int
) -> None:
    """Events that commit between its reads of heads and of events are no alarm; a changed one beside them is."""
    asyncio.run(_record_policies(database_url, b"first"))
    if problems:
        owner.execute("ALTER TABLE audit_event DISABLE TRIGGER ALL")
        owner.execute("UPDATE audit_event SET at = at + interval '1 s'")
    locked = Event()
    with ThreadPoolExecutor(1) as beside:
        recording = beside.submit(asyncio.run, _record_while_somebody_reads(database_url, locked))
        assert locked.wait(10)
        ended = signoff("audit", "verify")
        recording.result()
    assert f"1 events verified, {problems} problems" in ended.said
    assert ended.status == ended.said.count("policy #1: does not match its hash") == problems
    assert f"3 events verified, {problems} problems" in signoff("audit", "verify").said


async def _record_policies(url: str, *digests: bytes) -> None:
    async with Database(url) as database:
        for digest in digests:
            await policies.apply(database, Policy(source=f"# {digest!r}"), by="cli:test")


async def _record_while_somebody_reads(url: str, locked: Event) -> None:
    """Two events, in a chain that is there and in a new one, committed while somebody waits to read events."""
    async with Database(url, role=None) as database, database.transaction() as tx:
        await tx.execute(text("LOCK TABLE audit_event IN ACCESS EXCLUSIVE MODE"))
        locked.set()
        heads = await audit.lock_heads(tx, ["policy", "session:new"])
        for head in heads.values():
            audit.append(tx, head, audit.AuditEntry(AuditKind.VOTE_REFUSED, "worker:test", {}))

        async def somebody_waits() -> bool:
            return bool(await tx.connection.scalar(_WAITS_TO_READ))

        await until(somebody_waits)


_WAITS_TO_READ = text("""
SELECT count(*) FROM pg_locks JOIN pg_database AS d ON d.oid = database AND d.datname = current_database()
WHERE relation = 'audit_event'::regclass AND mode = 'AccessShareLock' AND NOT granted
""")


def test_the_stop_switch(signoff: Command, database_url: str) -> None:
    """`signoff pause` stops, names what is stopped by whom, and `signoff resume` continues; twice is no error. Pausing
    an agent that never existed prints a warning: the name may be a typo.
    """
    output = signoff("pause", "refunds", "--reason", "odd").said
    assert "agent refunds is paused" in output
    assert 'no agent named "refunds" has ever run here' in output
    ended = signoff("pause", "refunds")
    assert (ended.status, "was already paused" in ended.said) == (0, True)
    assert "paused now: refunds, by cli:" in ended.said
    assert "there was no pause for all agents" in signoff("resume").said
    assert "agent refunds is resumed" in signoff("resume", "refunds").said


def test_how_limits_stand(signoff: Command, owner: psycopg.Connection[Any]) -> None:
    """`signoff limits` lists each limit of the policy with what is used, by whom; `--json` has exact amounts."""
    owner.execute("""
        INSERT INTO limit_use (limit_name, key, subject, amount, settled)
            VALUES ('refunds', gen_random_uuid(), 'requester:T1/U0ADA', 4960.10, true)
    """)
    owner.commit()
    (signoff.folder / "checkpoints.toml").write_text("""
[[limit]]
name = "refunds"
action_pattern = "refund"
of = "facts.price"
per = "requester"
within = "24h"
max = 5000
[[limit]]
name = "calls"
action_pattern = ".*"
of = "count"
per = "all"
within = "1h"
max = 40
then = "deny"
""")
    said = signoff("limits").said
    for word in ("refunds", "requester:T1/U0ADA", "4,960.10", "5,000", "24h", "calls", "40", "1h", "deny"):
        assert word in said, (word, said)
    [line] = signoff("limits", "--json").said.splitlines()
    assert json.loads(line) == {
        "limit": "refunds", "subject": "requester:T1/U0ADA", "used": "4960.10", "waiting": "0", "max": "5000"
    }  # fmt: skip


# --- commands ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("serve",),
        ("check",),
        ("init",),
        ("demo",),
        ("db",),
        ("db", "upgrade"),
        ("audit", "verify"),
        ("pause",),
        ("resume",),
    ],
    ids=" ".join,
)
def test_every_command_explains_itself(signoff: Command, arguments: tuple[str, ...]) -> None:
    """`--help` works everywhere, without any setting."""
    ended = signoff(*arguments, "--help", DATABASE_URL=None, SLACK_BOT_TOKEN=None)
    assert ended.status == 0
    assert f"Usage: signoff {' '.join(arguments)}".strip() in ended.said


def test_check_says_which_rule_catches_each_tool(signoff: Command) -> None:
    """One row per tool, with its rule; it needs neither database nor Slack."""
    (signoff.folder / "checkpoints.toml").write_text(
        CHECKPOINTS + '[[checkpoint]]\ncheckpoint_id = "deletions"\naction_pattern = "delete_*"\n'
    )
    ended = signoff("check", DATABASE_URL=None, SLACK_BOT_TOKEN=None, SLACK_APP_TOKEN=None)
    assert ended.status == 0, ended.said
    rows = {row.split("│")[2].strip(): row for row in ended.said.splitlines() if row.count("│") == 4}
    assert "deletions" in rows["delete_records"]
    assert "deletions" not in rows["list_tables"]
    assert "policy digest" in ended.said


def test_check_says_who_is_asked_where_and_how_long(signoff: Command) -> None:
    """One row per checkpoint with channel, deadline and approvers, and a line about a deadline in seconds."""
    (signoff.folder / "checkpoints.toml").write_text(
        '[defaults]\ntimeout = 24\napprovers = ["U0ADA", "U0GRACE", "U0LIN"]\n'
        '[[checkpoint]]\ncheckpoint_id = "deletions"\naction_pattern = "delete_*"\n'
        'channel = "C0OPS"\ntimeout = "1h30m"\napprovers = ["S0FIN", "channel"]\napprovals_required = 2\n'
    )
    ended = signoff("check", DATABASE_URL=None, SLACK_BOT_TOKEN=None, SIGNOFF_CHANNEL="C0HOME")
    assert ended.status == 0, ended.said
    rows = [[cell.strip() for cell in row.split("│")[1:-1]] for row in ended.said.splitlines()]
    assert ["deletions", "C0OPS", "1h30m", "S0FIN, channel, 2 of them"] in rows
    assert ["[defaults]", "C0HOME", "24s", "U0ADA, U0GRACE, U0LIN"] in rows
    assert 'checkpoints.toml:2: [defaults]: "timeout" is 24 seconds' in ended.said
    assert '24 hours are "24h"' in ended.said


def test_check_names_a_file_of_another_encoding(signoff: Command) -> None:
    """What a Windows editor or shell writes is named, with what to save it as."""
    (signoff.folder / "checkpoints.toml").write_text(CHECKPOINTS, encoding="utf-8-sig")
    said = signoff("check").said
    assert "begins with a byte order mark (BOM); save it as UTF-8 without one" in said
    (signoff.folder / "checkpoints.toml").write_text(CHECKPOINTS, encoding="utf-16")
    assert "checkpoints.toml is not UTF-8; save it as UTF-8" in signoff("check").said


def test_check_without_agents_prints_a_command_to_copy(signoff: Command) -> None:
    """The hint is one line, however narrow the terminal is."""
    ended = signoff("check", SIGNOFF_AGENTS=None, COLUMNS="40")
    assert ended.status == 0, ended.said
    assert "SIGNOFF_AGENTS=my_agents signoff check\n" in ended.said


def test_check_names_what_fits_no_tool(signoff: Command) -> None:
    """A misspelt tool and a misspelt argument are said, each with its checkpoint; neither is an error."""
    (signoff.folder / "checkpoints.toml").write_text(
        CHECKPOINTS
        + '[[checkpoint]]\ncheckpoint_id = "deletions"\naction_pattern = "delete_*"\nwhen = "args.cuont > 3"\n'
        + '[[checkpoint]]\ncheckpoint_id = "sending"\naction_pattern = "sned_notification"\n'
    )
    ended = signoff("check", DATABASE_URL=None, SLACK_BOT_TOKEN=None, SLACK_APP_TOKEN=None)
    assert ended.status == 0, ended.said
    assert (
        'checkpoints.toml:8: checkpoint "deletions": "when" looks at args.cuont, but delete_records has no such'
        in ended.said
    )
    assert (
        'checkpoints.toml:11: checkpoint "sending": "action_pattern" matches none of the loaded tools'
        in ended.said
    )


@pytest.mark.parametrize(
    ("module", "parameters", "says"),
    [
        ("takes_one", "context: ToolContext, table: str", None),
        (
            "takes_two",
            "a: ToolContext, b: ToolContext",
            "a and b each take the ToolContext; only one parameter can",
        ),
        ("takes_a_list", "a: list[ToolContext]", 'parameter "a" has a ToolContext inside its type'),
        ("takes_several", "*a: ToolContext", "must be a plain named parameter"),
    ],
)
def test_check_names_a_context_that_the_model_would_see(
    signoff: Command, module: str, parameters: str, says: str | None
) -> None:
    """A tool may take its context under any name; what would offer it to the model is refused by parameter."""
    (signoff.folder / f"{module}.py").write_text(
        "from signoff import Agent, ToolContext, tool\n\n@tool\n"
        f'def keep({parameters}) -> str:\n    """Keep."""\n    return ""\n\n'
        'keeper = Agent("keeper", "Keep.", [keep])\n'
    )
    ended = signoff("check", SIGNOFF_AGENTS=module, DATABASE_URL=None)
    assert (ended.status == 0) == (says is None), ended.said
    assert says is None or says in ended.said


async def test_check_names_groups_that_leave_too_few_people(signoff: Command) -> None:
    """Where Slack can be asked, with the line and the reason; Slack away is said, and nothing is an error."""
    away = await asyncio.to_thread(signoff, "check")
    assert (away.status, "the members of S0FINANCE were not counted" in away.said) == (0, True)
    async with SlackSandbox(rate_limits=False, echo=False) as slack:
        reached: Any = {"SLACK_BOT_TOKEN": slack.bot_token, "SLACK_API_URL": slack.api_url}
        two = await asyncio.to_thread(signoff, "check", **reached)
        slack.workspace.change_usergroup("S0FINANCE", ["U0GRACE", "U0LINUS", "U0ADA"])
        three = await asyncio.to_thread(signoff, "check", **reached)
    assert (two.status, three.status) == (0, 0)
    assert (
        "checkpoints.toml:3: [defaults]: S0FINANCE: 2 reviewers, 1 must approve; whoever asks and whoever gave a "
        "reason or a note cannot approve what follows, so have at least 3, or set prevent_self_review or "
        "adviser_may_approve\n"
    ) in two.said
    assert "S0FINANCE: " not in three.said


def test_check_names_a_misspelt_setting(signoff: Command) -> None:
    """What nobody reads is said, with the name that was probably meant; it is no error."""
    ended = signoff("check", SIGNOFF_CHANEL="#reviews", SIGNOFF_SESSION="night-1")  # the gate's
    assert ended.status == 0, ended.said
    assert "SIGNOFF_SESSION" not in ended.said
    assert "there is no setting SIGNOFF_CHANEL (did you mean SIGNOFF_CHANNEL?); it is ignored" in ended.said


def test_init_writes_what_check_accepts_and_overwrites_nothing(signoff: Command) -> None:
    """In an empty folder three files that work; in one with files of those names nothing is touched."""
    empty = signoff.folder / "new"
    ended = signoff("init", "new")
    assert ended.status == 0, ended.said
    # Runs as it is printed, whether or not the program is on the path.
    assert "cd new && /usr/bin/signoff demo --agents my_agents" in ended.said
    assert sorted(path.name for path in empty.iterdir()) == [
        ".env.example",
        "checkpoints.toml",
        "my_agents.py",
    ]
    inside = Command(empty, {"SIGNOFF_AGENTS": "my_agents"}, signoff.capture, signoff.monkeypatch)
    ended = inside("check")
    assert ended.status == 0, ended.said
    assert "delete_records" in ended.said
    assert "deletions" in ended.said
    written = (empty / "checkpoints.toml").read_text()
    for key in ("prevent_self_review = false", "adviser_may_approve = true", "editor_may_approve = true"):
        assert f"\n# {key} " in written
        written = written.replace(f"# {key}", key)
    terms = checkpoints.load(written, filename="checkpoints.toml").defaults
    assert (terms.prevent_self_review, terms.adviser_may_approve, terms.editor_may_approve) == (
        False,
        True,
        True,
    )
    (empty / "checkpoints.toml").write_text("mine")
    (empty / ".env.example").unlink()
    lines = inside.is_wrong("init")
    assert "checkpoints.toml already exists" in "".join(lines)
    assert (empty / "checkpoints.toml").read_text() == "mine"
    assert not (empty / ".env.example").exists()


def test_init_into_a_file_is_refused(signoff: Command) -> None:
    """A path that is no folder is named."""
    [line] = signoff.is_wrong("init", "the_agents.py")
    assert "the_agents.py" in line


def test_an_unknown_option_is_refused(signoff: Command) -> None:
    """Exit code 2 and the usage, as every command line does."""
    ended = signoff("serve", "--fast")
    assert ended.status == 2
    assert "--fast" in ended.said


# --- serve, as a process ----------------------------------------------------------------------------------


@pytest.fixture
async def slack() -> AsyncIterator[SlackSandbox]:
    """Slack, as far as a start needs it."""
    async with SlackSandbox(rate_limits=False, echo=False) as sandbox:
        yield sandbox


@pytest.fixture
async def serve(slack: SlackSandbox, signoff: Command) -> AsyncIterator[Serve]:
    """`signoff serve` as a process, with settings that are all right."""
    settings = signoff.environment | {
        "SLACK_BOT_TOKEN": slack.bot_token,
        "SLACK_APP_TOKEN": slack.app_token,
        "SLACK_API_URL": slack.api_url,
        "SIGNOFF_DRAIN_SECONDS": "1",
    }
    process = Serve(settings, signoff.folder)
    yield process
    await process.kill()


async def _fails(serve: Serve, **changes: str) -> list[str]:
    """Start what cannot work: exit code 2, no traceback; returns the lines that say why."""
    await serve.start(changes=changes, may_end=True)
    assert await serve.ends() == 2, serve.said()
    assert "Traceback" not in serve.said(), serve.said()
    return [line for line in serve.lines if line.startswith("signoff: ")]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"SLACK_BOT_TOKEN": BOT_TOKEN}, "Slack rejects SLACK_BOT_TOKEN (invalid_auth)"),
        ({"SLACK_APP_TOKEN": APP_TOKEN}, "Slack rejects SLACK_APP_TOKEN (invalid_auth)"),
        ({"SIGNOFF_CHANNEL": "#no-such-channel"}, "SIGNOFF_CHANNEL: There is no channel #no-such-channel"),
        ({"SIGNOFF_CHANNEL": "C0NOSUCH"}, "SIGNOFF_CHANNEL: There is no channel C0NOSUCH"),
    ],
    ids=["bot token", "app token", "channel name", "channel id"],
)
async def test_what_slack_rejects_at_the_start_is_one_line(
    serve: Serve, changes: dict[str, str], words: str
) -> None:
    """A token or a channel that Slack does not know: the setting's name and Slack's word, exit code 2."""
    [line] = await _fails(serve, **changes)
    assert words in line
    assert BOT_TOKEN not in serve.said(1000)
    assert APP_TOKEN not in serve.said(1000)


@pytest.mark.parametrize("method", ["auth.test", "conversations.info"])
async def test_a_token_that_is_rejected_only_later_ends_the_service(
    serve: Serve, slack: SlackSandbox, method: str
) -> None:
    """Slack is away at the start, comes back and rejects the token: the service ends with the same one line."""
    slack.faults.http_500(method, times=1)
    slack.faults.error("apps.connections.open", "invalid_auth", times=None)
    [line] = await _fails(serve)
    assert "Slack rejects SLACK_APP_TOKEN (invalid_auth)" in line
    assert "Slack answers 500" in serve.said(1000)


@pytest.mark.parametrize("setting", ["SIGNOFF_PORT", "SIGNOFF_HEALTH_PORT"])
async def test_a_taken_port_ends_the_service_with_one_line(serve: Serve, setting: str) -> None:
    """The line names the port and its setting, and no other port is listened on: a proxy would talk to a stranger."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        wanted = taken.getsockname()[1]
        [line] = await _fails(serve, **{setting: str(wanted)})
    assert line.startswith(f"signoff: {setting}: port {wanted} on 127.0.0.1 is taken"), line
    assert "service.started" not in serve.said(1000)


async def test_a_second_service_on_the_same_port_ends_and_the_first_goes_on(serve: Serve) -> None:
    """Two services on one machine: the second one stops, also while clients are connected to the first."""
    await serve.start()
    with socket.create_connection(("127.0.0.1", serve.port)):
        second = Serve(serve.settings, serve.folder)
        [line] = await _fails(second, SIGNOFF_PORT=str(serve.port))
        assert f"port {serve.port} on 127.0.0.1 is taken" in line
    assert await asyncio.to_thread(_status, f"http://127.0.0.1:{serve.port}/readyz") == 200


async def test_a_port_is_free_again_at_once(serve: Serve) -> None:
    """A service that is restarted gets its port back, although connections to the one before linger (TIME_WAIT)."""
    await serve.start()
    port = serve.port
    with socket.create_connection(("127.0.0.1", port)) as lingering:
        lingering.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        while lingering.recv(4096):
            pass
    assert await serve.stop() == 0, serve.said()
    await serve.start(changes={"SIGNOFF_PORT": str(port)})
    assert serve.port == port


async def test_sigterm_ends_with_0(serve: Serve) -> None:
    """Told to stop, the process ends in order."""
    await serve.start()
    assert await asyncio.to_thread(_status, f"http://127.0.0.1:{serve.port}/readyz") == 200
    assert await serve.stop() == 0, serve.said()
    assert "Traceback" not in serve.said(1000)
    assert not any(secret in serve.said(1000) for secret in SECRETS)


async def test_a_ready_service_collects_garbage(serve: Serve) -> None:
    """Garbage collection is off while the service starts, and on once it is ready."""
    await serve.start()

    def collected() -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{serve.port}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        (young,) = [each for each in lines if each.startswith('python_gc_collections_total{generation="0"}')]
        return float(young.split()[-1])

    before = await asyncio.to_thread(collected)

    async def again() -> bool:
        return await asyncio.to_thread(collected) > before

    await until(again)
    assert await serve.stop() == 0, serve.said()


async def test_roles_without_the_web_need_no_way_in(serve: Serve) -> None:
    """A worker listens to nothing, so neither an app token nor a signing secret is asked for."""
    settings = {name: value for name, value in serve.settings.items() if name != "SLACK_APP_TOKEN"}
    worker = Serve(settings | {"SIGNOFF_ROLES": "worker,scheduler"}, serve.folder)
    await worker.start(listens=False)
    assert await worker.stop() == 0, worker.said()


async def test_what_nobody_would_want_is_warned_of(serve: Serve) -> None:
    """A misspelt setting is named with the one that was perhaps meant, and without agents the service says so."""
    settings = {name: value for name, value in serve.settings.items() if name != "SIGNOFF_AGENTS"}
    worker = Serve(settings | {"SIGNOFF_ROLES": "worker,scheduler", "SIGNOFF_AGENT": "shop"}, serve.folder)
    await worker.start(listens=False)
    assert await worker.stop() == 0, worker.said()
    assert "action=settings.unknown" in worker.said(1000)
    assert "SIGNOFF_AGENT (did you mean SIGNOFF_AGENTS?)" in worker.said(1000)
    assert "action=agents.none" in worker.said(1000)


async def test_a_clean_start_warns_of_nothing(serve: Serve, tmp_path: Path) -> None:
    """Settings that are read elsewhere, secrets in files, an agent: no warning, ours or a library's, and no `repr`."""
    secret = tmp_path / "key"
    secret.write_text("sk-none")
    changes = {
        "SIGNOFF_AGENTS": "signoff_demo.examples.refunds",
        "SIGNOFF_SHOP_URL": serve.settings["DATABASE_URL"],
        "OPENAI_API_KEY_FILE": str(secret),
    }
    settings = {name: value for name, value in serve.settings.items() if name != "OPENAI_API_KEY"}
    service = Serve(settings | changes, serve.folder)
    await service.start()
    assert await service.stop() == 0, service.said()
    assert re.findall(r"(?i).*(?:warning|traceback|<[a-z_.]+ object|<class).*", service.said(1000)) == []


def _status(url: str) -> int:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return int(answer.status)


# --- the app's manifest -----------------------------------------------------------------------------------


def test_manifest_is_printed_for_either_mode(signoff: Command) -> None:
    """`signoff manifest` needs no settings; with --url it is for HTTP there, and a wrong address is one line."""
    plain = signoff("manifest", DATABASE_URL=None, SLACK_BOT_TOKEN=None)
    assert plain.status == 0
    assert "socket_mode_enabled: true" in plain.said
    at = signoff("manifest", "--url", "https://signoff.example.com")
    assert at.said.count("https://signoff.example.com/slack/events") == 4
    [line] = signoff.is_wrong("manifest", "--url", "http://signoff.example.com")
    assert "--url" in line


def test_manifest_takes_the_public_address_from_the_settings(signoff: Command) -> None:
    """SIGNOFF_PUBLIC_URL is where Slack calls a service in HTTP mode; --url wins, and Socket Mode has no address."""
    address = {"SIGNOFF_PUBLIC_URL": "https://signoff.example.com"}
    known = signoff("manifest", SLACK_APP_TOKEN=None, **address)
    assert known.said.count("https://signoff.example.com/slack/events") == 4
    other = signoff("manifest", "--url", "https://other.example.com", SLACK_APP_TOKEN=None, **address)
    assert other.said.count("https://other.example.com/slack/events") == 4
    assert "signoff.example.com" not in other.said
    assert "socket_mode_enabled: true" in signoff("manifest", SLACK_APP_TOKEN="xapp-1", **address).said
    wrong = {"SLACK_APP_TOKEN": None, "SIGNOFF_PUBLIC_URL": "http://127.0.0.1:8080"}
    [line] = signoff.is_wrong("manifest", **wrong)
    assert line.startswith("signoff: SIGNOFF_PUBLIC_URL must be an address like https://"), line
    assert "--url" in signoff.is_wrong("manifest", "--url", "http://other.example.com", **wrong)[0]
