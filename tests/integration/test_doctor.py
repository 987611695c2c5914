"""`signoff doctor`: it names what is missing and how to fix it; when all is well, the exit code is 0."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from agent.database.pools import Database
from agent.domain import checkpoints
from agent.usecases import pause
from agent.usecases import policy as policies
from signoff_demo.sandbox import SlackSandbox
from signoff_demo.sandbox.model import MODEL_NAME, ModelFault, ScriptedModel
from slackbot import settings
from slackbot.service import database_findings, doctor, open_files
from slackbot.service.findings import Finding
from slackbot.service.sample_cards import sample_cards
from tests.integration import alone
from tests.integration.asking import GRACE, ask, ballot, claim_approved, reviewer, rule, write
from tests.integration.command import Command
from tests.integration.crash.process import ROOT, Ended

CHECKPOINTS = """
[defaults]
channel = "refund-reviews"
approvers = ["S0FINANCE"]
"""


@dataclass
class Clinic:
    """A sandbox, a model, a database, and the settings of a service that finds all of it well."""

    slack: SlackSandbox
    settings: dict[str, str]

    async def findings(self, policy: str = CHECKPOINTS, **changes: str) -> dict[str, Finding]:
        """Everything that is found, by part."""
        configured = settings.read(self.settings | changes, folder=ROOT / "tests")
        url = self.settings["DATABASE_URL"] if "DATABASE_URL" not in changes else changes["DATABASE_URL"]
        async with Database(url) as database:
            found = doctor.examine(configured, checkpoints.load(policy, filename="c.toml"), database, url)
            return {each.part: each async for each in found}

    async def sick(self, policy: str = CHECKPOINTS, **changes: str) -> Finding:
        """The one thing that is not well."""
        found = await self.findings(policy, **changes)
        [sick] = [each for each in found.values() if not each.well]
        assert sick.remedy
        return sick

    async def command(self, signoff: Command, policy: str | None = CHECKPOINTS) -> Ended:
        """The command itself; with no checkpoints file for `None`."""
        file = signoff.folder / "checkpoints.toml"
        file.unlink()
        if policy is not None:
            file.write_text(policy)
        given: dict[str, str | None] = dict.fromkeys(signoff.environment)
        return await asyncio.to_thread(signoff, "doctor", **(given | self.settings))


@pytest.fixture
async def clinic(database_url: str) -> AsyncIterator[Clinic]:
    """Everything is well, until a test changes it."""
    async with SlackSandbox(rate_limits=False, echo=False) as slack, ScriptedModel() as model:
        given = {
            "DATABASE_URL": database_url,
            "SLACK_BOT_TOKEN": slack.bot_token,
            "SLACK_APP_TOKEN": slack.app_token,
            "SLACK_API_URL": slack.api_url,
            "OPENAI_API_KEY": "sk-scripted",
            "OPENAI_BASE_URL": model.base_url,
            "SIGNOFF_MODEL": MODEL_NAME,
        }
        yield Clinic(slack, given)


async def test_too_few_open_files_are_found(
    clinic: Clinic, signoff: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hard limit below the documented one: how many callers it lets wait, and how to raise it."""
    monkeypatch.setattr(open_files, "hard_limit", lambda: 1_024)
    ended = await clinic.command(signoff)
    assert ended.status == 1
    assert "✗ open files: 1,024 open files let 498 callers of one key wait at a time, not 5,000" in ended.said
    assert "    → raise the hard limit to 8,192" in ended.said


async def test_all_is_well(clinic: Clinic, signoff: Command) -> None:
    """The command goes through every part and ends with 0; it posts nothing."""
    ended = await clinic.command(signoff)
    assert ended.status == 0, ended.said
    assert "✗" not in ended.said
    for part in ("database", "bot token", "scopes", "clock", "way in", "channel", "user group", "model"):
        assert f"✓ {part}" in ended.said
    assert not clinic.slack.calls_of("chat.postMessage")


async def test_commands_are_shown_under_their_own_names(clinic: Clinic, signoff: Command) -> None:
    """As the manifest has them, with what Slack does to a name that two apps have."""
    clinic.settings |= {"SIGNOFF_AGENT_COMMAND": "/eu-agent", "SIGNOFF_APPROVALS_COMMAND": "/eu-approvals"}
    ended = await clinic.command(signoff)
    assert ended.status == 0, ended.said
    [commands] = re.findall(r"^✓ commands: (.*)$", ended.said, re.MULTILINE)
    assert commands.startswith(
        "/eu-agent and /eu-approvals, as `signoff manifest` has them; Slack gives a name"
    )


async def test_whoever_is_sick_is_told_what_mends_it(clinic: Clinic, signoff: Command) -> None:
    """Something is wrong: exit code 1, a cross, and the remedy below it."""
    clinic.slack.workspace.leave("C0REVIEW", "U0BOT")
    ended = await clinic.command(signoff)
    assert ended.status == 1, ended.said
    assert ended.said.count("✗") == 1
    assert "    → invite the bot" in ended.said


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (None, "there is no file"),
        ("[defaults]\napprovers = 7\n", "checkpoints.toml:2"),
    ],
    ids=["missing", "wrong"],
)
async def test_checkpoints_that_cannot_be_enforced_are_a_finding(
    clinic: Clinic, signoff: Command, policy: str | None, words: str
) -> None:
    """A missing or wrong file is reported with the rest, which is still checked."""
    ended = await clinic.command(signoff, policy)
    assert ended.status == 1, ended.said
    [sick] = re.findall(r"^✗ checkpoints: (.*)$", ended.said, re.MULTILINE)
    assert words in sick
    assert "✓ model" in ended.said
    assert "Traceback" not in ended.said


async def test_missing_scopes_are_named(clinic: Clinic) -> None:
    """A scope that the manifest asks for and the installation lacks is named."""
    bot = clinic.slack.workspace.bot
    clinic.slack.workspace.bot = type(bot)(
        bot.app_id, bot.user_id, bot.bot_id, bot.name, tuple(s for s in bot.scopes if s != "im:history")
    )
    sick = await clinic.sick()
    assert (sick.part, sick.detail) == ("scopes", "missing: im:history")
    assert "reinstall" in sick.remedy


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda clinic: clinic.slack.workspace.leave("C0REVIEW", "U0BOT"), "not a member"),
        (
            lambda clinic: setattr(clinic.slack.workspace.channels["C0REVIEW"], "is_ext_shared", True),
            "shared with another organisation",
        ),
    ],
    ids=["not joined", "shared"],
)
async def test_a_channel_that_cannot_be_used_is_named(clinic: Clinic, change: object, words: str) -> None:
    """The bot is not in it, or outsiders are: the sentence says which."""
    assert callable(change)
    change(clinic)
    sick = await clinic.sick()
    assert sick.part == "channel refund-reviews"
    assert words in sick.detail


async def test_a_channel_that_does_not_exist_is_named(clinic: Clinic) -> None:
    """Also the admin channel, which is looked at like the others."""
    sick = await clinic.sick(CHECKPOINTS + 'admin_channel = "nowhere"\n')
    assert sick.part == "channel nowhere"


@pytest.mark.parametrize(("users", "group"), [([], "S0FINANCE"), (None, "S0NOBODY")])
async def test_a_group_nobody_can_decide_from_is_named(
    clinic: Clinic, users: list[str] | None, group: str
) -> None:
    """A group without members, and one that Slack does not know."""
    if users is not None:
        clinic.slack.workspace.change_usergroup(group, users)
    sick = await clinic.sick(CHECKPOINTS.replace("S0FINANCE", group))
    assert sick.part == f"user group {group}"
    assert sick.detail == ("has no members" if users is not None else "no_such_subteam")


async def test_a_group_that_leaves_too_few_people_is_mentioned(clinic: Clinic) -> None:
    """It is well, as they can review; the sentence says who cannot, and which keys let them."""
    found = (await clinic.findings())["reviewers"]
    assert (found.well, "S0FINANCE: 2 reviewers, 1 must approve" in found.detail) == (True, True)
    one = CHECKPOINTS + "prevent_self_review = false\nadviser_may_approve = true\n"
    assert "reviewers" not in await clinic.findings(one)


async def test_a_wrong_app_token_is_found(clinic: Clinic) -> None:
    """Socket Mode is tried for real."""
    sick = await clinic.sick(SLACK_APP_TOKEN="xapp-another")
    assert (sick.part, sick.detail) == ("way in", "Socket Mode: invalid_auth")


TOKEN_CODES = {
    "invalid_auth": "copy the bot token (xoxb-…) again",
    "account_inactive": "install the app in the workspace again",
    "token_revoked": "install the app in the workspace again",
    "token_expired": "turn off token rotation",
    "missing_scope": "add the scope under OAuth & Permissions",
}


@pytest.mark.parametrize("code", TOKEN_CODES)
async def test_slacks_word_for_a_token_is_shown_with_its_remedy(
    clinic: Clinic, signoff: Command, code: str
) -> None:
    """No error code of Slack is masked, and each has the remedy of its cause."""
    clinic.slack.faults.error("auth.test", code, times=None)
    ended = await clinic.command(signoff)
    assert ended.status == 1
    assert f"✗ bot token: Slack rejects SLACK_BOT_TOKEN ({code})\n    → {TOKEN_CODES[code]}" in ended.said
    assert "redacted" not in ended.said


async def test_a_schema_that_is_behind_is_found(clinic: Clinic, empty_url: str) -> None:
    """The address in use is looked at, also when nothing is there yet, not even the service's role."""
    sick = await clinic.sick(DATABASE_URL=empty_url)
    assert (sick.part, sick.remedy) == ("database", "run `signoff db upgrade`")


async def test_a_schema_of_another_checkout_is_found(clinic: Clinic, owner: psycopg.Connection[Any]) -> None:
    """The finding says what it is; the remedy, where to go from there."""
    owner.execute("CREATE OR REPLACE VIEW lineage AS SELECT 'another'::text AS marker")
    sick = await clinic.sick()
    assert sick.part == "database"
    assert re.fullmatch(
        r'schema "signoff" of .* was made by another checkout .* cannot be upgraded', sick.detail
    )
    assert sick.remedy.startswith("set SIGNOFF_DB_SCHEMA to a new name or DATABASE_URL to an empty database")


async def test_what_a_restored_backup_would_start_is_told(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work that waits since long ago is a finding that says how much; in a running service, or paused, it is none."""
    async with Database(clinic.settings["DATABASE_URL"]) as database:
        assert (await clinic.findings())["open work"].detail == "none; the next start begins nothing"
        approved, claimed = await ask(database), await ask(database)
        await alone.vote(database, ballot(approved, reviewer(GRACE)))
        await claim_approved(database, claimed)
        running = (await clinic.findings())["open work"]
        assert running.well
        assert running.detail.startswith(
            "the next start begins: calls that run: 1, attempts that become in doubt: 1, "
        )
        monkeypatch.setattr(database_findings, "SILENCE", timedelta(0))
        restored = await clinic.sick()
        assert restored.part == "open work"
        assert restored.detail.startswith(
            "the next start begins: calls that run: 1, attempts that become in doubt: 1, "
        )
        assert "signoff pause" in restored.remedy
        late = await ask(database, rule(execute_within=timedelta(microseconds=1)))
        await alone.vote(database, ballot(late, reviewer(GRACE)))
        detail = (await clinic.findings())["open work"].detail
        assert "calls that run: 1, approvals that are too old, so people are asked again: 1, " in detail
        await pause.pause(database, None, by="test")
        assert (await clinic.findings())["open work"].well


async def test_messages_that_were_given_up_are_named_and_tried_again(
    clinic: Clinic, signoff: Command
) -> None:
    """The doctor names them with Slack's reason; `signoff deliveries` lists them, and `retry` makes them due again."""
    async with Database(clinic.settings["DATABASE_URL"]) as database:
        await ask(database)
        await write(
            database, "UPDATE delivery SET state = 'dead', error = 'invalid_blocks' WHERE kind = 'card'"
        )
        sick = await clinic.sick()
        assert sick.part == "messages"
        assert "card in C0REVIEW: invalid_blocks" in sick.detail
        listed = await asyncio.to_thread(signoff, "deliveries", **clinic.settings)
        assert "invalid_blocks" in listed.said
        retried = await asyncio.to_thread(signoff, "deliveries", "retry", "--all", **clinic.settings)
        assert "1 will be retried" in retried.said
        assert (await clinic.findings())["messages"].well


async def test_a_database_that_is_away_is_found(clinic: Clinic) -> None:
    """Nobody listens there; everything else is still looked at."""
    sick = await clinic.sick(DATABASE_URL="postgresql://u@127.0.0.1:9/d")
    assert "cannot reach the database" in sick.detail
    assert sick.remedy.startswith("start the server, or correct host and port in DATABASE_URL")


@pytest.mark.parametrize(
    ("part", "other", "remedy"),
    [
        (r"/[^/?]*\?", "/nowhere?", "create that database, or correct its name in DATABASE_URL"),
        (r"//[^@]*@", "//nobody@", "create that login, or correct it in DATABASE_URL"),
    ],
    ids=["no such database", "no such login"],
)
async def test_a_server_that_lets_nobody_in_is_not_away(
    clinic: Clinic, part: str, other: str, remedy: str
) -> None:
    """What the server answers decides the remedy."""
    sick = await clinic.sick(DATABASE_URL=re.sub(part, other, clinic.settings["DATABASE_URL"], count=1))
    assert "does not exist" in sick.detail
    assert sick.remedy == remedy


@pytest.mark.parametrize(
    ("answer", "remedy"),
    [
        ('no pg_hba.conf entry for host "::1", user "u", database "d", no encryption', "let pg_hba.conf of"),
        ('pg_hba.conf rejects connection for host "::1", user "u", database "d"', "let pg_hba.conf of"),
        ("the database system is starting up", "the server is starting"),
        ("the database system is shutting down", "the server is stopping"),
        ("the database system is in recovery mode", "the server is recovering"),
        ("the database system is not yet accepting connections", "let the server"),
        ('database "d" is not currently accepting connections', "let the server"),
        ("sorry, too many clients already", "raise max_connections"),
        ('too many connections for role "u"', "raise the CONNECTION LIMIT"),
        ('too many connections for database "d"', "raise the CONNECTION LIMIT"),
        (
            "remaining connection slots are reserved for roles with the SUPERUSER attribute",
            "raise max_connections",
        ),
        ('permission denied for database "d"', "grant that login CONNECT"),
        ('role "u" is not permitted to log in', "let that role log in"),
        ('password authentication failed for user "u"', "correct login and password"),
        ('role "u" does not exist', "create that login"),
        ('database "d" does not exist', "create that database"),
        ("a word of a later version", "the server answers"),
    ],
)
async def test_each_refusal_of_a_login_has_its_own_remedy(clinic: Clinic, answer: str, remedy: str) -> None:
    """A refused login is told what mends it, also where the answer names a database or a role beside the cause."""
    fields = b"".join([b"SFATAL\0", b"VFATAL\0", b"C57P03\0", b"M", answer.encode(), b"\0\0"])

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1024)
        writer.write(b"E" + (len(fields) + 4).to_bytes(4) + fields)
        await writer.drain()
        writer.close()

    # PostgreSQL cannot be kept in most of these states; the words are its own.
    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        url = f"postgresql://u@127.0.0.1:{port}/d?sslmode=disable&gssencmode=disable"
        sick = await clinic.sick(DATABASE_URL=url)
    assert answer in sick.detail
    assert sick.remedy.startswith(remedy)


async def test_a_database_of_another_encoding_needs_another_database(clinic: Clinic, postgres: Any) -> None:
    """Its remedy is a database that can hold every text, not another version of Signoff."""
    postgres.admin.execute("CREATE DATABASE plain TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'")
    try:
        sick = await clinic.sick(DATABASE_URL=postgres.url("plain"))
    finally:
        postgres.drop("plain")
    assert sick.detail.endswith("has the encoding SQL_ASCII, and Signoff needs UTF8")
    assert sick.remedy == "make one with: CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8'"


async def test_the_database_in_use_is_the_one_looked_at(clinic: Clinic, empty_url: str) -> None:
    """With an embedded server its own address counts, not DATABASE_URL, which may be unset or another one."""
    given = {name: value for name, value in clinic.settings.items() if name != "DATABASE_URL"}
    configured = settings.read(given, folder=ROOT / "tests")
    policy = checkpoints.load(CHECKPOINTS, filename="c.toml")
    for url, well in ((clinic.settings["DATABASE_URL"], True), (empty_url, False)):
        async with Database(url) as database:
            found = {each.part: each async for each in doctor.examine(configured, policy, database, url)}
        assert found["database"].well is well


async def test_a_setting_that_is_none_is_found(clinic: Clinic) -> None:
    """A misspelt name is reported with the likely one; names of other programs are ignored."""
    sick = await clinic.sick(SIGNOFF_CHANEL="C0REVIEW", SLACK_THEME="dark")
    assert sick.part == "settings"
    assert sick.detail == "there is no setting SIGNOFF_CHANEL (did you mean SIGNOFF_CHANNEL?)"


async def test_a_model_that_is_away_is_found(clinic: Clinic) -> None:
    """Nobody answers at its address."""
    sick = await clinic.sick(OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    assert sick.part == "model"
    assert sick.detail == "cannot reach 127.0.0.1:9"
    assert "DNS, proxy, firewall and OPENAI_BASE_URL" in sick.remedy


async def test_a_model_that_is_not_there_is_found(clinic: Clinic) -> None:
    """Its server says so, and is not asked a question that costs something."""
    sick = await clinic.sick(SIGNOFF_MODEL="nonesuch")
    assert sick.part == "model"
    assert sick.detail.endswith(" has no model 'nonesuch'")


async def test_a_server_that_lists_no_models_is_asked_a_question(clinic: Clinic) -> None:
    """Without `GET /models/{id}` an answer shows that the model is there; a refusal to answer is a finding."""
    async with ScriptedModel(lists_models=False) as model:
        found = await clinic.findings(OPENAI_BASE_URL=model.base_url)
        assert found["model"].well, found["model"]
        assert [request["model"] for request in model.requests] == [MODEL_NAME]
        model.script(ModelFault.http(404))
        assert (await clinic.sick(OPENAI_BASE_URL=model.base_url)).detail.endswith(
            f" has no model {MODEL_NAME!r}"
        )


async def test_slack_that_is_away_is_one_finding(clinic: Clinic) -> None:
    """What cannot be asked is not guessed, and the model is still looked at."""
    found = await clinic.findings(SLACK_API_URL="http://127.0.0.1:9/api/")
    database = {"database", "policy", "open work", "messages", "schedules"}
    assert set(found) == {"checkpoints", *database, "bot token", "model"}
    assert not found["bot token"].well
    assert found["bot token"].remedy.startswith("let this machine reach Slack: check DNS, proxy, firewall")


async def test_slack_in_trouble_needs_no_new_token(clinic: Clinic) -> None:
    """Neither an outage of Slack nor its wish for silence is a matter of tokens."""
    clinic.slack.faults.http_500("auth.test", times=None)
    assert (await clinic.sick()).remedy == "Slack has trouble (https://slack-status.com): try again"


OBSERVED = """
[[checkpoint]]
checkpoint_id = "tried"
action_pattern = "pay"
mode = "observe"
observe_until = 2026-01-01
"""


async def test_the_policy_in_force_is_looked_at(clinic: Clinic) -> None:
    """Its channels are checked; a checkpoint that is no longer observed is reported; a policy that cannot be loaded is
    a finding.
    """
    other = CHECKPOINTS + 'admin_channel = "C0NOWHERE"\n'
    async with Database(clinic.settings["DATABASE_URL"]) as database:
        await policies.apply(database, checkpoints.load(other, filename="c.toml"), by="cli:ada")
        assert (await clinic.sick()).part == "channel C0NOWHERE"
        over = CHECKPOINTS + OBSERVED
        await policies.apply(database, checkpoints.load(over, filename="c.toml"), by="cli:ada")
        detail = (await clinic.findings())["policy"].detail
        assert detail.endswith('remove "mode" and "observe_until" to enforce it, or remove it')
        mail = checkpoints.load(CHECKPOINTS + 'email = ["a@example.com"]\n', filename="c.toml")
        await policies.apply(database, mail, by="cli:ada")
        sick = await clinic.sick()
    assert sick.part == "policy"
    assert "policy 3 is in force, applied by cli:ada, and cannot be loaded: policy 3:5:" in sick.detail


async def test_slack_checks_each_kind_of_message(clinic: Clinic) -> None:
    """Every kind goes through Slack's own validator; a refused one is named with its code, and nothing is posted."""
    found = (await clinic.findings())["cards"]
    assert found.well
    kinds = [kind for kind, _ in sample_cards(GRACE, "C0SAMPLE", datetime.now(UTC))]
    assert found.detail == f"Slack accepts all {len(kinds)} kinds of messages"
    assert len(clinic.slack.calls_of("blocks.validate")) == len(kinds)
    clinic.slack.faults.error("blocks.validate", "invalid_blocks", times=None)
    found = await clinic.sick()
    assert found.detail == f"Slack refuses {'; '.join(f'{kind} (invalid_blocks)' for kind in kinds)}"
    assert clinic.slack.messages("C0REVIEW") == []
    clinic.slack.faults.clear()
    clinic.slack.faults.error("blocks.validate", "invalid_blocks")
    clinic.slack.faults.http_500("blocks.validate", times=None)
    found = await clinic.sick()
    assert (
        found.detail == f"Slack refuses {kinds[0]} (invalid_blocks)"
    )  # whatever stops the rest of the check


@pytest.mark.parametrize("code", ["unknown_method", "internal_error"])
async def test_a_slack_that_checks_no_messages_is_well(clinic: Clinic, code: str) -> None:
    """Where Slack does not offer the check, or fails at it, nothing is said against the messages."""
    clinic.slack.faults.error("blocks.validate", code, times=None)
    assert (await clinic.findings())["cards"].well
