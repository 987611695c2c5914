"""Commands for operators: keys, requests, runs, export, retention."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from agent.database.pools import Database
from agent.domain.api_keys import Principal, Scope
from agent.domain.audit import genesis
from agent.domain.run import AnswerKind, CallAnswer, Turn
from agent.domain.short_ids import short_id
from agent.store import views
from agent.usecases import api_keys, requests, runs
from signoff_demo.sandbox import Faults, SlackSandbox
from slackbot.cli import export
from tests.integration import alone, invariants
from tests.integration.asking import GRACE, Asked, ask, ballot, column, question, reviewer, rule, start, write
from tests.integration.command import Command

HOSTILE = "\x1b[2J\x1b]0;owned\x07=cmd|'/c calc'!A1 \u202eAKIA" + "IOSFODNN7EXAMPLE"


def on(url: str, work: Callable[[Database], Awaitable[Any]]) -> Any:
    """Do something with the database between two commands."""

    async def do() -> Any:
        async with Database(url) as db:
            return await work(db)

    return asyncio.run(do())


def asked(url: str, **changes: Any) -> Asked:
    return on(url, lambda db: ask(db, **changes))


def secret_of(said: str) -> str:
    found = re.search(r"^signoff_[A-Za-z0-9_-]{43}$", said, re.MULTILINE)
    assert found, said
    return found[0]


def recognised(url: str, secret: str) -> Principal | None:
    return on(url, lambda db: api_keys.authenticate(db, secret))


# --- keys -------------------------------------------------------------------------------------------------


def test_a_login_that_is_not_utf8_is_recorded_readably(signoff: Command, database_url: str) -> None:
    """What PostgreSQL cannot store in the login's name is replaced in the record, and the command works."""
    ended = signoff("keys", "create", "shop", "--scope", "request", LOGNAME=os.fsdecode(b"caf\xe9"))
    assert ended.status == 0, ended.said
    actors = on(
        database_url, lambda db: column(db, "SELECT actor FROM audit_event WHERE event = 'key.created'")
    )
    assert actors == ["cli:caf\ufffd"]


def test_a_key_is_shown_once_and_works(signoff: Command, database_url: str) -> None:
    """`keys create` prints a key that is recognised with its scopes, owner and agent; the list shows its beginning."""
    arguments = ["--scope", "request", "--scope", "read", "--owner", "T0TEAM/U0ADA", "--agent", "shop"]
    limits = ("--expires", "90d", "--per-minute", "5")
    made = signoff("keys", "create", "shop", *arguments, *limits, SLACK_BOT_TOKEN=None)
    assert made.status == 0, made.said
    assert "only once" in made.said
    secret = secret_of(made.said)
    principal = recognised(database_url, secret)
    assert principal is not None
    assert (sorted(principal.scopes), str(principal.owner), principal.agent) == (
        ["read", "request"],
        "T0TEAM/U0ADA",
        "shop",
    )
    [line] = json.loads(signoff("keys", "list", "--json").said)
    assert (line["name"], line["per_minute"], line["revoked_at"]) == ("shop", 5, None)
    assert line["expires_at"]
    listed = signoff("keys", "list").said
    assert "valid until" in listed
    assert secret not in listed
    assert secret[:12] in listed


LIMITED = """
[[limit]]
name = "refunds"
action_pattern = "refund"
of = "count"
per = "agent"
within = "24h"
max = 10

[[checkpoint]]
checkpoint_id = "theirs"
action_pattern = "close"
when = "agent != 'billing'"
"""


def test_a_key_that_names_its_agents_is_made_with_a_warning(signoff: Command, tmp_path: Path) -> None:
    """Where a limit or a checkpoint goes by the agent's name, `keys create` without --agent says so."""
    file = tmp_path / "limited.toml"
    file.write_text(LIMITED)
    assert "any agent" not in signoff("keys", "create", "early", "--scope", "request").said
    assert signoff("policy", "apply", str(file)).status == 0
    free = signoff("keys", "create", "free", "--scope", "request").said
    assert 'depend on the name: checkpoint "theirs", limit "refunds".' in " ".join(free.split())
    for arguments in (("--scope", "request", "--agent", "billing"), ("--scope", "read")):
        assert "any agent" not in signoff("keys", "create", f"key-{arguments[1]}", *arguments).said


def test_a_rotated_key_keeps_its_old_secret_only_as_long_as_told(
    signoff: Command, database_url: str, owner: psycopg.Connection
) -> None:
    """`rotate --keep-old` leaves both secrets valid; without it the old one ends at once; `revoke` ends all."""
    first = secret_of(signoff("keys", "create", "ci", "--scope", "read").said)
    second = secret_of(signoff("keys", "rotate", "ci", "--keep-old", "24h").said)
    assert recognised(database_url, first)
    assert recognised(database_url, second)
    third = secret_of(signoff("keys", "rotate", "ci").said)
    assert recognised(database_url, second) is None
    assert recognised(database_url, third)
    assert signoff("keys", "revoke", "ci").status == 0
    assert recognised(database_url, third) is None
    assert "revoked" in signoff("keys", "list").said
    events = "SELECT event FROM audit_event WHERE subject = 'key:ci' AND actor LIKE 'cli:%' ORDER BY seq"
    found = [event for (event,) in owner.execute(events)]
    assert found == ["key.created", "key.rotated", "key.rotated", "key.revoked"]


def test_a_key_whose_name_is_a_secret_is_rotated_and_revoked(signoff: Command, database_url: str) -> None:
    """A name with the form of a secret is refused for a new key, and accepted where such a key exists."""
    name = "AKIA" + "IOSFODNN7EXAMPLE"
    assert "secret" in signoff("keys", "create", name, "--scope", "read").said
    first = on(database_url, lambda db: api_keys.create(db, name, [Scope.READ], by="test"))
    rotated = signoff("keys", "rotate", name)
    assert rotated.status == 0, rotated.said
    assert recognised(database_url, first) is None
    assert recognised(database_url, secret_of(rotated.said))
    revoked = signoff("keys", "revoke", name)
    assert revoked.status == 0, revoked.said
    assert recognised(database_url, secret_of(rotated.said)) is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("create", "a", "--scope", "request", "--scope", "decide", "--owner", "T0TEAM/U0ADA"),
            "never decide",
        ),
        (("create", "a", "--scope", "decide"), "needs an owner"),
        (("create", "a b", "--scope", "read"), "a key's name"),
        (("create", "a", "--scope", "everything"), "everything"),
        (("create", "a", "--scope", "read", "--expires", "soon"), "72h"),
        (("create", "a", "--scope", "read", "--owner", "ada"), "U…"),
        (("create", "a", "--scope", "read", "--team", "T0TEAM"), "--owner"),
        (("revoke", "nobody"), "no key named nobody"),
        (("rotate", "nobody"), "no key named nobody"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_key_that_cannot_be_is_refused_with_the_reason(
    signoff: Command, arguments: tuple[str, ...], words: str
) -> None:
    """Exit code 2 and a line that says what is wrong; no key is made."""
    ended = signoff("keys", *arguments, SLACK_BOT_TOKEN=None)
    assert ended.status == 2
    assert words in " ".join(ended.said.split())
    assert "there are no keys" in signoff("keys", "list").said


def test_the_owners_workspace_is_asked_of_slack(signoff: Command, database_url: str) -> None:
    """`--owner U…` alone is a user of the bot's own workspace; without a token the line names --team. In an Enterprise
    Grid, a member named by their home workspace is stored as the person who clicks.
    """
    given = ("keys", "create", "votes", "--scope", "decide", "--owner", "U0GRACE")
    [line] = signoff.is_wrong(*given, SLACK_BOT_TOKEN=None)
    assert "--team" in line

    async def with_slack() -> None:
        async with SlackSandbox(rate_limits=False, echo=False) as slack:
            changes = {"SLACK_BOT_TOKEN": slack.bot_token, "SLACK_API_URL": slack.api_url}
            home = ("T0SECOND", "T0SANDBOX")
            slack.workspace.add_member("U0HANA", "hana", team_id="T0SECOND", workspaces=home)
            for named, owner in (
                ("U0GRACE", "T0SANDBOX/U0GRACE"),
                ("T0SECOND/U0HANA", "T0SANDBOX/U0HANA"),
            ):
                create = ("keys", "create", f"votes-{named}".replace("/", "-"), *given[3:-1], named)
                ended = await asyncio.to_thread(signoff, *create, **changes)
                assert ended.status == 0, ended.said
                principal = await asyncio.to_thread(recognised, database_url, secret_of(ended.said))
                assert principal is not None
                assert str(principal.owner) == owner
            wrong = await asyncio.to_thread(signoff, *given[:-1], "T0SECOND/U0GRACE", **changes)
            assert (wrong.status, "write U0GRACE alone" in wrong.said) == (2, True), wrong.said

    asyncio.run(with_slack())


def test_what_an_operator_changes_has_the_time_of_its_event(signoff: Command, database_url: str) -> None:
    """Keys, webhooks, schedules, pauses and policies tell the same time in their lists and in the audit log."""
    for command in (
        ("keys", "create", "shop", "--scope", "request"),
        ("keys", "create", "crm", "--scope", "request"),
        ("keys", "revoke", "crm"),
        ("webhooks", "add", "ops", "https://ops.example.com/hook"),
        ("webhooks", "add", "old", "https://ops.example.com/hook"),
        ("webhooks", "remove", "old"),
        ("schedule", "add", "--agent", "a", "--task", "t", "--for", "T0TEST/U0ADA", "--cron", "0 9 * * 1"),
        ("pause", "refunds"),
        ("policy", "apply", "checkpoints.toml"),
    ):
        ended = signoff(*command, SLACK_BOT_TOKEN=None)
        assert ended.status == 0, ended.said
    assert on(database_url, invariants.broken) == []


WEEKLY = ["schedule", "add", "--agent", "reporter", "--task", "drafts", "--cron", "0 9 * * 1", "--for"]


@pytest.mark.parametrize(
    ("strike", "says"),
    [
        (lambda faults: faults.ratelimited("users.info", times=None), "did not confirm"),
        (lambda faults: faults.http_500("users.info", times=None), "did not confirm"),
        (lambda faults: faults.error("users.info", "missing_scope", times=None), "did not confirm"),
        (lambda faults: faults.ratelimited("auth.test", times=None), "did not confirm"),
        (lambda faults: faults.http_500("auth.test", times=None), "did not confirm"),
        (lambda faults: faults.error("auth.test", "token_revoked", times=None), "rejects SLACK_BOT_TOKEN"),
    ],
    ids=["limited", "failing", "without scope", "ourselves limited", "ourselves failing", "token revoked"],
)
def test_nobody_is_stored_whom_slack_does_not_confirm(
    signoff: Command, strike: Callable[[Faults], object], says: str
) -> None:
    """With a token, an owner or requester is stored as the person who clicks, or not at all."""

    async def with_slack() -> None:
        async with SlackSandbox(rate_limits=False, echo=False) as slack:
            changes = {"SLACK_BOT_TOKEN": slack.bot_token, "SLACK_API_URL": slack.api_url}
            home = ("T0SECOND", "T0SANDBOX")
            slack.workspace.add_member("U0HANA", "hana", team_id="T0SECOND", workspaces=home)
            strike(slack.faults)
            for given in (["keys", "create", "hers", "--scope", "request", "--owner"], WEEKLY):
                ended = await asyncio.to_thread(signoff, *given, "T0SECOND/U0HANA", **changes)
                assert (ended.status, says in ended.said) == (2, True), ended.said

    asyncio.run(with_slack())
    assert "there are no keys" in signoff("keys", "list").said
    assert "nothing is scheduled" in signoff("schedule", "list").said


# --- requests and runs ------------------------------------------------------------------------------------


def test_requests_are_listed_filtered_and_shown(signoff: Command, database_url: str) -> None:
    """Table and JSON lines have what fits the filters, also without `list`; `show` takes the beginning of an id. The
    table shows the outcome of an approval.
    """
    first, second = asked(database_url), asked(database_url, agent="other")
    on(database_url, lambda db: alone.vote(db, ballot(first, reviewer(GRACE))))
    lines = [json.loads(each) for each in signoff("requests", "list", "--json").said.splitlines()]
    assert [line["id"] for line in lines] == [str(second.request_id), str(first.request_id)]
    for filters, expected in [
        (("--status", "approved"), [first]),
        (("--agent", "other"), [second]),
        (("--limit", "1"), [second]),
        (("--since", "1h"), [second, first]),
        (("--since", "2199-01-01"), []),
    ]:
        said = signoff("requests", *filters, "--json").said
        ids = [json.loads(each)["id"] for each in said.splitlines()]
        assert ids == [str(each.request_id) for each in expected], filters
    assert "approved" in signoff("requests").said
    on(database_url, lambda db: runs.cancel_by_operator(db, first.run_id, "test", "no longer wanted"))
    assert "approved, not run" in signoff("requests").said
    assert short_id(first.request_id) in signoff("requests", COLUMNS="80").said
    shown = json.loads(signoff("requests", "show", str(first.request_id), "--json").said)
    assert shown["decided_by"] == {"team_id": GRACE.team_id, "user_id": GRACE.user_id}
    assert shown["action"]["arguments"] == {"order_id": 0}
    output = signoff("requests", "show", short_id(first.request_id)).said
    assert shown["digest"] in output
    assert "order_id" in output
    assert "several requests begin" in signoff.is_wrong("requests", "show", "0")[0]
    assert "no request begins" in signoff.is_wrong("requests", "show", "ffff")[0]


def test_hostile_text_does_nothing_to_a_terminal_and_secrets_are_masked(
    signoff: Command, database_url: str
) -> None:
    """No control character, no turned line and no credential of an agent reaches the output of any command."""
    request = asked(database_url, description=HOSTILE, agent="a\x1b[31m", rationale=HOSTILE)
    for arguments in [
        ("requests", "list"),
        ("requests", "list", "--json"),
        ("requests", "show", str(request.request_id)),
        ("requests", "show", str(request.request_id), "--json"),
        ("runs", "list"),
        ("runs", "show", str(request.run_id)),
        ("runs", "show", str(request.run_id), "--json"),
        ("export", "--since", "1d", "--audit"),
    ]:
        ended = signoff(*arguments)
        assert ended.status == 0, ended.said
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", ended.said), arguments
        assert HOSTILE[-16:] not in ended.said, arguments


def test_a_request_is_withdrawn_and_never_decided_here(
    signoff: Command, database_url: str, owner: psycopg.Connection
) -> None:
    """`withdraw` takes a waiting request back, once; `approve` and `reject` say why they do not exist."""
    request = asked(database_url)
    for verdict in ("approve", "reject"):
        [line] = signoff.is_wrong("requests", verdict, str(request.request_id))
        assert "nobody decides on the command line" in line
    ended = signoff("requests", "withdraw", str(request.request_id), "--reason", "not needed")
    assert ended.status == 0, ended.said
    shown = json.loads(signoff("requests", "show", str(request.request_id), "--json").said)
    assert shown["status"] == "cancelled"
    assert "not needed" in shown["reason"]
    recorded = owner.execute(
        "SELECT actor, detail FROM audit_event WHERE event = 'request.withdrawn'"
    ).fetchone()
    assert recorded is not None
    assert "cli:" in str(recorded)
    [line] = signoff.is_wrong("requests", "withdraw", str(request.request_id))
    assert "already has an outcome" in line


def test_runs_are_listed_and_shown_with_their_transcript(signoff: Command, database_url: str) -> None:
    """The list has one line a run; `show` has what was said, the calls and their requests.

    Both say that a run is paused, and by whom.
    """
    request = asked(database_url)
    [line] = [json.loads(each) for each in signoff("runs", "list", "--json").said.splitlines()]
    assert (line["id"], line["agent"], line["waiting"]) == (str(request.run_id), "refunds", 1)
    assert "refund order 7" in signoff("runs", "list", "--status", "pending_approval").said
    assert "there are no such runs" in signoff("runs", "--status", "failed").said
    shown = json.loads(signoff("runs", "show", str(request.run_id), "--json").said)
    assert [message["role"] for message in shown["messages"]] == ["user", "assistant"]
    assert shown["calls"][0]["request"] == str(request.request_id)
    output = signoff("runs", "show", str(request.run_id)).said
    assert "Ada asks for it." in output
    assert "process_refund" in output
    on(database_url, start)
    signoff("pause", "refunds")
    [newest, _] = [each for each in signoff("runs").said.splitlines() if "refund order 7" in each]
    assert " paused " in newest
    assert "paused by cli:" in newest
    assert "paused by" in signoff("runs", "show", str(request.run_id)).said


def test_a_completed_run_of_whose_actions_none_was_done_ends_as_they_did(
    signoff: Command, database_url: str
) -> None:
    """List and `show` say that its action was rejected, not that it has completed."""

    async def reject(db: Database) -> UUID:
        asked = await ask(db)
        await alone.vote(db, ballot(asked, reviewer(GRACE), "reject"))
        await runs.answer_call(db, asked.call_id)
        leased = await alone.lease(db, asked.run_id, "w")
        assert leased is not None
        await alone.record_turn(db, leased.lease, Turn("It was rejected.", (), 10, leased.heard))
        return asked.run_id

    run_id = on(database_url, reject)
    assert "ended: rejected" in signoff("runs").said
    assert "ended: rejected" in signoff("runs", "show", str(run_id)).said


def test_a_call_that_did_nothing_reads_so(signoff: Command, database_url: str) -> None:
    """`runs show` does not print why nothing was done as if it were the tool's result."""

    async def refuse(db: Database) -> UUID:
        run_id, (call, _) = await start(db, calls=2)
        answer = CallAnswer(AnswerKind.NOTHING_DONE, "order 7 has been refunded already")
        await runs.refuse_call(db, call, answer)
        return run_id

    run_id = on(database_url, refuse)
    assert "Nothing was done: order 7 has been refunded already" in signoff("runs", "show", str(run_id)).said


def test_a_hidden_number_is_masked_in_calls_that_nobody_was_asked_about(
    signoff: Command, database_url: str
) -> None:
    """What a checkpoint of the run hides is hidden in all of the run's calls, numbers included."""

    async def asked_once(db: Database) -> UUID:
        run_id, (first, _) = await start(db, calls=2)
        await requests.open(db, question(run_id, first, rule(redact=("order_id",))))
        return run_id

    run_id = on(database_url, asked_once)
    shown = json.loads(signoff("runs", "show", str(run_id), "--json").said)
    assert ["redacted by-policy" in str(call["arguments"]) for call in shown["calls"]] == [True, True]


# --- export -----------------------------------------------------------------------------------------------


def test_export_has_every_request_vote_and_event_of_the_time(signoff: Command, database_url: str) -> None:
    """JSON lines with digests and, with --audit, the events and their hashes; another time has none of them."""
    request = asked(database_url)
    on(database_url, lambda db: alone.vote(db, ballot(request, reviewer(GRACE), reason="fine")))
    ended = signoff("export", "--since", "1d", "--audit", "--output", "all.jsonl")
    assert ended.status == 0, ended.said
    path = signoff.folder / "all.jsonl"
    assert path.stat().st_mode & 0o077 == 0
    records = [json.loads(line) for line in path.read_text().splitlines()]
    kinds = [record["kind"] for record in records]
    assert f"{len(records):,} records" in ended.said
    assert kinds[:2] == ["request", "vote"]
    assert set(kinds[2:]) == {"event"}
    assert records[0]["digest"] == records[1]["digest"]
    assert (records[1]["reason"], records[1]["path"]) == ("fine", "slack_button")
    subject = f"request:{request.request_id}"
    chain = [record for record in records if record.get("subject") == subject]
    hashes = [record["hash"] for record in chain]
    assert len(hashes) == len(set(hashes)) >= 3
    assert [record["previous"] for record in chain] == [genesis(subject).hex(), *hashes[:-1]]
    assert signoff("export", "--since", "2001-01-01", "--until", "2002-01-01").said == "0 records\n"


def test_export_without_a_beginning_is_everything(
    signoff: Command, database_url: str, owner: psycopg.Connection
) -> None:
    """Without --since, what is years old comes, too."""
    request = asked(database_url)
    owner.execute("UPDATE approval_request SET created_at = created_at - interval '9 years'")
    records = [json.loads(line) for line in signoff("export").said.splitlines() if line.startswith("{")]
    assert [each["id"] for each in records if each["kind"] == "request"] == [str(request.request_id)]
    assert "1 records" in signoff("export").said


def test_export_pages_through_everything_once(
    signoff: Command, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With pages of one record nothing is left out and nothing comes twice."""
    monkeypatch.setattr(export, "PAGE", 1)
    ids = {str(asked(database_url).request_id) for _ in range(3)}
    said = signoff("export", "--since", "1d", "--audit").said
    records = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    requests = [record["id"] for record in records if record["kind"] == "request"]
    assert sorted(requests) == sorted(ids)
    events = [(record["subject"], record["seq"]) for record in records if record["kind"] == "event"]
    assert len(events) == len(set(events))
    assert len(events) == on(database_url, _count_events)


async def _count_events(db: Database) -> int:
    async with db.connection() as connection:
        return int((await connection.exec_driver_sql("SELECT count(*) FROM audit_event")).scalar_one())


@pytest.mark.parametrize(
    "start",
    ["=", "+", "-", "@", "\t=", " =", "＝", "\u3000=", "\ufeff=", "\u200b=", "\v=", "\u200b \ufeff=", "\n="],
)
def test_a_spreadsheet_calculates_nothing_of_an_export(
    signoff: Command, database_url: str, start: str
) -> None:
    """A cell that would be a formula begins with an apostrophe; the table has its columns for all kinds."""
    asked(database_url, description=f"{start}HYPERLINK(1)")
    ended = signoff("export", "--since", "1d", "--format", "csv", "--output", "all.csv")
    assert ended.status == 0, ended.said
    rows = list(csv.DictReader(io.StringIO((signoff.folder / "all.csv").read_text(), newline="")))
    assert rows[0]["action_description"].startswith("'")
    assert json.loads(rows[0]["arguments"]) == {"order_id": 0}
    assert tuple(rows[0]) == export.COLUMNS


@pytest.mark.parametrize("between", [";", "\t", ";\u3000", "\r", "\n", ";\u200b", "\v"])
def test_a_cell_that_is_split_calculates_nothing(between: str) -> None:
    """Where a spreadsheet separates at semicolons or tabs, no part of a cell begins like a formula."""
    cells = export.row({"action_description": f"x{between}=HYPERLINK(1)"})
    assert [each for each in cells if each] == [f"x{between[:1]}'{between[1:]}=HYPERLINK(1)"]


def test_an_export_that_fails_leaves_no_file(signoff: Command) -> None:
    """A folder that is not there is one line, a wrong time says what is right, and no half file stays behind."""
    [line] = signoff.is_wrong("export", "--since", "1d", "--output", "nowhere/all.csv")
    assert "cannot write" in line
    ended = signoff("export", "--since", "yesterday")
    assert ended.status == 2
    assert "7d" in ended.said
    assert signoff("export", "--since", "1d", "--until", "2d").status == 2
    assert not list(Path(signoff.folder).glob("tmp*"))


# --- retention --------------------------------------------------------------------------------------------


def test_retention_counts_asks_and_erases(
    signoff: Command, database_url: str, owner: psycopg.Connection
) -> None:
    """A dry run counts and changes nothing; without a terminal it wants --yes; the chain holds after.

    The exit code is 1 while something is left that could not be erased.
    """
    request = asked(database_url)
    assert signoff("requests", "withdraw", str(request.request_id)).status == 0
    owner.execute("""
            UPDATE approval_request SET created_at = created_at - interval '1 hour',
                decided_at = decided_at - interval '1 hour';
            UPDATE tool_call SET state = 'answered', answered_at = now() - interval '1 hour';
            UPDATE agent_run SET status = 'completed', heard = inputs, awaiting_calls = 0,
                updated_at = now() - interval '1 hour'""")
    dry = signoff("retention", "--after", "1s", "--dry-run")
    assert (dry.status, "1 runs, 1 requests" in dry.said) == (0, True), dry.said
    for age in ("1s", "0d"):
        ended = signoff("retention", "--after", age)
        assert ended.status == 2
        assert "nothing was erased: confirm with --yes" in ended.said.splitlines()[-1]
    shown = json.loads(signoff("requests", "show", str(request.request_id), "--json").said)
    assert shown["erased_at"] is None
    owner.execute("ALTER TABLE agent_run ADD CONSTRAINT broken CHECK (erased_at IS NULL)")
    done = signoff("retention", "--after", "1s", "--yes")
    owner.execute("ALTER TABLE agent_run DROP CONSTRAINT broken")
    assert (done.status, "signoff: 1 could not be erased" in done.said) == (1, True), done.said
    done = signoff("retention", "--after", "1s", "--yes")
    assert (done.status, "erased: 1 runs, 1 requests" in done.said) == (0, True), done.said
    shown = json.loads(signoff("requests", "show", str(request.request_id), "--json").said)
    assert shown["erased_at"]
    assert shown["action_description"].startswith("erased on ")
    assert signoff("audit", "verify").status == 0
    assert "erased on" in signoff("runs", "show", str(request.run_id)).said
    assert signoff("export", "--since", "365d").status == 0


def test_retention_asks_at_a_terminal(
    signoff: Command, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a terminal nothing is erased without a yes, however it is asked for: the default is no."""
    request = asked(database_url)
    assert signoff("requests", "withdraw", str(request.request_id)).status == 0
    on(database_url, lambda db: write(db, "UPDATE delivery SET state = 'sent'"))
    person, terminal = os.openpty()
    try:
        with open(terminal, encoding="utf-8", closefd=False) as typed:
            monkeypatch.setattr("sys.stdin", typed)
            for answer, status in ((b"n\n", 1), (b"\n", 1), (b"y\n", 0)):
                os.write(person, answer)
                ended = signoff("retention", "--after", "0d")
                assert (ended.status, "Erase this? It cannot be undone." in ended.said) == (status, True)
                assert ("erased: 0 runs" in ended.said) is (status == 0)
    finally:
        os.close(person)
        os.close(terminal)


def test_retention_needs_the_owner(signoff: Command, postgres: Any, database_url: str) -> None:
    """A login that is only a member of the service's role is refused in one line that names SIGNOFF_OWNER_URL."""
    postgres.admin.execute("CREATE ROLE only_app LOGIN IN ROLE signoff_app")
    try:
        url = re.sub(r"//[^@]*@", "//only_app@", database_url)
        assert url != database_url
        [line] = signoff.is_wrong("retention", "--after", "90d", "--yes", DATABASE_URL=url)
        assert "SIGNOFF_OWNER_URL" in line
        ended = signoff(
            "retention", "--after", "90d", "--yes", DATABASE_URL=url, SIGNOFF_OWNER_URL=database_url
        )
        assert ended.status == 0, ended.said
    finally:
        postgres.admin.execute("DROP ROLE only_app")


async def test_the_finding_of_ids_walks_an_index(database: Database) -> None:
    """Lists for operators read the primary key backwards, and no table from end to end."""
    await ask(database)
    async with database.connection() as connection:
        assert len(await views.search_requests(connection, limit=5)) == 1
        await connection.exec_driver_sql("SET enable_seqscan = off")
        plan = await connection.exec_driver_sql(
            "EXPLAIN SELECT id FROM approval_request ORDER BY id DESC LIMIT 20"
        )
        assert "Index" in str(plan.scalars().all())


def test_a_failed_run_is_resumed(signoff: Command, database_url: str) -> None:
    """`runs resume` continues a failed run, on record with its operator; a run that has not failed is left alone."""

    async def fail(db: Database) -> Any:
        run_id, _ = await start(db, calls=0)
        await runs.add_message(db, run_id, "and?", GRACE, None)
        leased = await alone.lease(db, run_id, "w")
        assert leased is not None
        await runs.record_model_failure(db, leased.lease, "no such model", None)
        return run_id

    run_id = str(on(database_url, fail))
    ended = signoff("runs", "resume", run_id)
    assert (ended.status, f"run {run_id} goes on" in ended.said) == (0, True)
    again = signoff("runs", "resume", run_id)
    assert (again.status, "only a run that failed can be resumed" in again.said) == (2, True)
    actors = on(
        database_url, lambda db: column(db, "SELECT actor FROM audit_event WHERE event = 'run.resumed'")
    )
    assert [actor.partition(":")[0] for actor in actors] == ["cli"]
