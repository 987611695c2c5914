"""Erasing what ended long ago: what goes, what stays, what is never touched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest

from agent.database.address import Address
from agent.database.errors import DatabaseUnusable
from agent.database.pools import Database
from agent.domain.answers import AnswerForm
from agent.domain.request import ExecutionStatus, RequestStatus
from agent.domain.request_list import RequestKind
from agent.domain.run import CallExecutor, RunStatus, Turn
from agent.store import views
from agent.store.ids import id_at
from agent.usecases import audit, calls, grants, requests, retention, runs, webhooks
from agent.usecases.calls import Outcome
from agent.usecases.retention import ErasureCounts
from signoff.errors import Conflict
from slackbot import cards
from tests.integration import alone
from tests.integration.asking import (
    ADA,
    GRACE,
    LINUS,
    Asked,
    ask,
    asked_as,
    ballot,
    claim_approved,
    column,
    programs_question,
    reviewer,
    rule,
    write,
)
from tests.integration.granting import allow, cover, use
from tests.integration.web.receiver import LOOPBACK

SECRET = "a very private matter"
NOW = timedelta(0)
TODAY = f"erased on {datetime.now(UTC):%Y-%m-%d}"


@pytest.fixture
async def as_owner(database_url: str) -> AsyncIterator[Database]:
    """The database with the rights of its owner, as `signoff retention` opens it."""
    async with Database(database_url, role=None) as opened:
        yield opened


async def _asked(db: Database) -> Asked:
    return await ask(db, description=f"Refund: {SECRET}", rationale=SECRET, context={"task": SECRET})


async def _finished(db: Database) -> Asked:
    """A run whose one call was approved, executed and answered, and which then came to its end."""
    asked = await _asked(db)
    await write(db, "UPDATE agent_run SET program_user = :user RETURNING id", user=SECRET)
    await alone.vote(db, ballot(asked, reviewer(GRACE), reason="looks right"))
    claim = await alone.claim(db, asked.call_id, worker="worker-1", idempotent=False)
    assert claim is not None
    await alone.report(db, claim, Outcome(ExecutionStatus.SUCCEEDED, f"done: {SECRET}"))
    await _say_goodbye(db, asked.run_id)
    return asked


async def _say_goodbye(db: Database, run_id: UUID) -> None:
    leased = await alone.lease(db, run_id, "worker-1")
    assert leased is not None
    await alone.record_turn(db, leased.lease, Turn(f"It is done: {SECRET}", (), 10, leased.heard))


async def _from_outside(db: Database, client_id: str) -> UUID:
    """A request of a program that runs the action itself."""
    new = programs_question(rule(), principal="key:shop", client_id=client_id, description=SECRET)
    return (await requests.open(db, new)).request_id


async def _erase(db: Database, ago: timedelta = NOW, batch_size: int = 200) -> ErasureCounts:
    before, total = await retention.cutoff(db, ago), ErasureCounts()
    async for batch in retention.erase(db, before, by="cli:test", batch_size=batch_size):
        total += batch
    return total


async def _everything(owner: psycopg.Connection) -> str:
    """All rows of all tables, as text."""
    tables = owner.execute(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'signoff'::regnamespace"
    ).fetchall()
    return "\n".join(
        str(row)
        for (name,) in tables
        for row in owner.execute(f"SELECT to_jsonb(t) || jsonb_build_object('of', '{name}') FROM {name} AS t")
    )


async def test_nothing_of_what_was_said_is_left_and_the_chain_verifies(
    database: Database, as_owner: Database, owner: psycopg.Connection
) -> None:
    """After it no row has the words or arguments; votes, decision, digests and a record that verifies are there."""
    asked = await _finished(database)
    digest = (await column(database, "SELECT digest FROM request_revision"))[0]
    assert SECRET in await _everything(owner)
    assert "order_id" in await _everything(owner)
    erased = await _erase(as_owner)
    assert (erased.runs, erased.requests) == (1, 1)
    left = await _everything(owner)
    assert SECRET not in left
    assert "order_id" not in left
    assert SECRET.encode().hex() not in left
    assert await column(database, "SELECT reason FROM vote") == ["looks right"]
    assert await column(database, "SELECT outcome::text FROM decision") == ["approved"]
    assert await column(database, "SELECT digest FROM decision") == [digest]
    assert await column(database, "SELECT status::text FROM execution") == ["succeeded"]
    events, problems = await audit.find_problems(database)
    assert events > 5
    assert problems == []
    counts = await column(
        database, "SELECT detail ->> 'runs' FROM audit_event WHERE event = 'retention.erased'"
    )
    assert "1" in counts
    assert asked.request_id in await column(database, "SELECT id FROM approval_request")
    assert await column(database, "SELECT count(*) FROM delivery WHERE kind IN ('card', 'run_root')") == [2]


async def test_every_reader_says_when_it_was_erased(database: Database, as_owner: Database) -> None:
    """Views, lists, cards, details, runs, transcripts and the view for outsiders say `erased on`, and none fails."""
    asked = await _finished(database)
    await _erase(as_owner)
    async with database.connection() as connection:
        view = await views.request_view(connection, asked.request_id)
        [line] = await views.found_requests(connection, "T0SIGNOFF", RequestKind.DECIDED)
        [mine] = await views.requests_of(connection, ADA)
        run = await views.run_view(connection, asked.run_id)
        messages = await views.messages(connection, asked.run_id)
        [call] = await views.calls(connection, asked.run_id)
        work = (await views.open_call_details(connection, [asked.call_id])).get(asked.call_id)
    assert view is not None
    assert view.erased_at is not None
    assert {view.description, line.description, mine.description} == {TODAY}
    assert (dict(view.action.arguments), view.facts) == ({}, None)
    assert TODAY in str(cards.request_card(view).blocks)
    assert TODAY in str(cards.details_modal(view))
    assert TODAY in cards.details_text(view)
    assert run is not None
    assert (run.task, run.answer, run.status) == (TODAY, TODAY, RunStatus.COMPLETED)
    assert run.erased_at is not None
    assert {message.text for message in messages} == {TODAY}
    assert (call.raw_arguments, call.answer.text if call.answer else None) == ("{}", TODAY)
    assert work is not None
    assert await column(database, "SELECT action_description FROM pending_reviews") == [TODAY]


async def test_an_edited_request_is_erased_whole(database: Database, as_owner: Database) -> None:
    """What a reviewer changed goes as well, and the run's calls can still be read."""
    asked = await _finished(database)
    async with as_owner.transaction() as tx:
        await tx.connection.exec_driver_sql(
            """INSERT INTO request_revision (request_id, n, tool, tool_version, action, digest, author, description,
                   context, editor_team_id, editor_user_id, changes)
               SELECT request_id, 2, tool, tool_version, action, digest, 'U1', description, context, 'T1', 'U1',
                   '[{"path": "$.order_id", "before": 0, "after": 1}]' FROM request_revision"""
        )
        await tx.connection.exec_driver_sql("UPDATE approval_request SET revision = 2")
    await _erase(as_owner)
    async with database.connection() as connection:
        view = await views.request_view(connection, asked.request_id)
        [call] = await views.calls(connection, asked.run_id)
    assert view is not None
    assert view.changes == call.edited == ()
    assert view.editor is not None


async def test_what_waits_or_is_in_doubt_stays(database: Database, as_owner: Database) -> None:
    """A waiting request, an approval not claimed yet, a call in doubt and a run at work stay, however old."""
    waiting = await _asked(database)
    doubtful = await _asked(database)
    await claim_approved(database, doubtful, worker="worker-1")
    await write(database, "UPDATE execution SET lease_until = clock_timestamp() - interval '1 minute'")
    assert await calls.rescue(database) == 1
    unclaimed = await _from_outside(database, "1")
    await write(
        database,
        """WITH d AS (INSERT INTO decision (request_id, outcome, revision, digest, team_id, user_id)
                      VALUES (:id, 'approved', 1, sha256('a'), 'T1', 'U1'))
           , decided AS (UPDATE approval_request SET status = 'approved', decided_at = now() WHERE id = :id)
           UPDATE tool_call SET state = 'ready', lapse_at = now() + interval '1 day' WHERE id = :id""",
        id=unclaimed,
    )
    erased = await _erase(as_owner)
    assert (erased.runs, erased.requests) == (0, 0)
    ids = [waiting.request_id, doubtful.request_id, unclaimed]
    async with database.connection() as connection:
        found = await views.request_views(connection, ids)
    assert [view.erased_at for view in found] == [None] * 3
    assert all(SECRET in view.description for view in found)


async def test_a_live_grant_keeps_its_request(database: Database, as_owner: Database) -> None:
    """However old, what a live grant allows stays, and covers calls; it is erased once the grant has ended."""
    grant_id = await allow(database)
    await _erase(as_owner)
    erased = "SELECT erased_at IS NOT NULL FROM request_revision WHERE request_id = :id"
    assert await column(database, erased, id=grant_id) == [False]
    assert await use(database, cover(grant_id)) is not None
    await grants.revoke_as_operator(database, grant_id, "cli:test")
    await _erase(as_owner)
    assert await column(database, erased, id=grant_id) == [True]


async def test_what_ended_lately_stays_until_its_time(database: Database, as_owner: Database) -> None:
    """Ninety days mean ninety days since the end; a second time finds nothing more to erase."""
    await _finished(database)
    await requests.withdraw(database, await _from_outside(database, "1"), None, "not needed")
    assert (await _erase(as_owner, timedelta(days=90))).total == 0
    due = await retention.due(as_owner, await retention.cutoff(as_owner, NOW))
    assert (due.runs, due.requests) == (1, 2)
    erased = await _erase(as_owner)
    assert (erased.runs, erased.requests) == (1, 2)
    assert (await _erase(as_owner)).total == 0
    events = "SELECT count(*) FROM audit_event WHERE event = 'retention.erased'"
    assert (await column(database, events))[0] >= 3


async def test_small_batches_reach_everything(database: Database, as_owner: Database) -> None:
    """With one row a batch everything that is due is erased, each batch recorded."""
    for number in range(3):
        await requests.withdraw(database, await _from_outside(database, str(number)), None, None)
    assert (await _erase(as_owner, batch_size=1)).requests == 3
    assert await column(database, "SELECT count(*) FROM request_revision WHERE erased_at IS NULL") == [0]


async def test_a_broken_one_holds_up_no_other(
    database: Database, as_owner: Database, owner: psycopg.Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the database will not let be erased is logged by its id, counted and recorded; everything else is erased."""
    ids = [await _from_outside(database, str(number)) for number in range(3)]
    for each in ids:
        await requests.withdraw(database, each, None, None)
    broken = f"request_id = '{ids[1]}' AND erased_at IS NOT NULL"
    owner.execute(f"ALTER TABLE request_revision ADD CONSTRAINT broken CHECK (NOT ({broken})) NOT VALID")
    try:
        erased = await _erase(as_owner)
    finally:
        owner.execute("ALTER TABLE request_revision DROP CONSTRAINT broken")
    assert (erased.requests, erased.broken) == (2, 1)
    left = await column(database, "SELECT request_id FROM request_revision WHERE erased_at IS NULL")
    assert left == [ids[1]]
    assert str(ids[1]) in capsys.readouterr().out
    counts = await column(
        database, "SELECT detail ->> 'broken' FROM audit_event WHERE event = 'retention.erased'"
    )
    assert "1" in counts
    assert (await _erase(as_owner)).requests == 1


async def test_settled_deliveries_and_notices_go_pending_ones_stay(
    database: Database, as_owner: Database
) -> None:
    """What was sent or given up long ago is pruned; what is pending is not."""
    await _asked(database)
    await write(database, "UPDATE delivery SET state = 'sent' WHERE kind = 'run_root'")
    before = await column(database, "SELECT count(*) FROM delivery WHERE state = 'pending'")
    assert (await _erase(as_owner)).deliveries == 1
    assert await column(database, "SELECT state::text FROM delivery") == ["pending"] * before[0]


async def test_the_id_of_each_message_says_when_it_was_written(database: Database) -> None:
    """Erasing finds what is old by its id, also the messages that a statement over several runs or webhooks writes."""
    await webhooks.add(database, "ops", "http://127.0.0.1/", by="test", allowed=LOOPBACK)
    begun = id_at(datetime.now(UTC))
    asked = await _finished(database)
    written = "SELECT id FROM delivery UNION ALL SELECT id FROM notice"
    ids = await column(database, written)
    assert len(ids) > 5
    assert begun <= min(ids) < max(ids) < id_at(datetime.now(UTC) + timedelta(seconds=1))
    roots = "SELECT count(*) FROM delivery WHERE kind = 'run_root' AND run_id = :run"
    assert await column(database, roots, run=asked.run_id) == [1]


async def test_a_conversation_can_go_on_after_it(database: Database, as_owner: Database) -> None:
    """A person can write in an erased run's thread; that is erased in its own time."""
    asked = await _finished(database)
    await _erase(as_owner)
    assert await runs.add_message(database, asked.run_id, "one thing more", GRACE, "event-2")
    assert (await _erase(as_owner)).runs == 0, "a run with something to hear has not ended"
    await _say_goodbye(database, asked.run_id)
    assert (await _erase(as_owner)).runs == 1
    assert set(await column(database, "SELECT text FROM run_message")) == {TODAY}


async def test_an_erased_request_is_not_asked_again(database: Database, as_owner: Database) -> None:
    """An expired request whose arguments are gone cannot be repeated, and its card has no button for it."""
    asked = await _asked(database)
    await write(
        database,
        """UPDATE approval_request SET created_at = created_at - interval '3 days',
           expires_at = expires_at - interval '3 days'""",
    )
    assert await requests.expire_due(database) == 1
    await write(database, "UPDATE tool_call SET state = 'answered', answered_at = now()")
    await _say_goodbye_if_needed(database, asked.run_id)
    assert (await _erase(as_owner)).requests == 1
    with pytest.raises(Conflict, match="erased"):
        await requests.ask_again(database, asked.request_id, reviewer(ADA))
    async with database.connection() as connection:
        view = await views.request_view(connection, asked.request_id)
    assert view is not None
    assert cards.ACTION_ASK_AGAIN not in str(cards.request_card(view).blocks)


async def _say_goodbye_if_needed(db: Database, run_id: UUID) -> None:
    await write(
        db,
        "UPDATE agent_run SET status = 'completed', awaiting_calls = 0, heard = inputs WHERE id = :id",
        id=run_id,
    )


async def test_the_service_cannot_erase(database: Database) -> None:
    """With the rights of the service it is refused in one line that names the setting, before anything happens."""
    await _finished(database)
    with pytest.raises(DatabaseUnusable, match="SIGNOFF_OWNER_URL"):
        await _erase(database)
    assert await column(database, "SELECT count(*) FROM request_revision WHERE erased_at IS NOT NULL") == [0]


async def test_two_at_once_erase_everything_once(database: Database, as_owner: Database) -> None:
    """Two erasures at the same time leave each other's rows alone and lose none."""
    for number in range(6):
        await requests.withdraw(database, await _from_outside(database, str(number)), None, None)
    first, second = await asyncio.gather(_erase(as_owner, batch_size=1), _erase(as_owner, batch_size=1))
    assert first.requests + second.requests == 6
    _, problems = await audit.find_problems(database)
    assert problems == []


def test_addresses_hide_their_password() -> None:
    """The refusal names the database without its password."""
    assert "pw" not in str(Address.read("postgresql://u:pw@h/d"))


@pytest.mark.parametrize("form_kind", ["a choice", "a form"])
async def test_an_answer_is_erased_with_its_question(
    database: Database, as_owner: Database, owner: psycopg.Connection, form_kind: str
) -> None:
    """Value, options, labels and what the function proposed go; digests stay, and every reader and the chain hold."""
    if form_kind == "a choice":
        schema: dict[str, object] = {"enum": [f"option {SECRET}", "us"]}
        value: object = f"own {SECRET}"
    else:
        schema = {
            "type": "object",
            "properties": {"a": {"type": "string", "title": SECRET, "description": SECRET}},
        }
        value = {"a": f"own {SECRET}"}
    form = AnswerForm.of(schema, answers_required=2)
    new = programs_question(
        rule(), answer_form=form, executor=CallExecutor.NONE, description=f"Which? {SECRET}"
    )
    opened = await requests.open(database, new)
    asked = await asked_as(database, opened.request_id, opened.request_id, opened.request_id)
    others = [reviewer(GRACE), reviewer(LINUS)]
    for each in others:
        await alone.vote(database, ballot(asked, each, "answer", others, answer=form.read(value)))
    digest = form.read(value).digest
    await _erase(as_owner)
    assert SECRET not in await _everything(owner)
    assert SECRET.encode().hex() not in await _everything(owner)
    kept = owner.execute(
        "SELECT digest, length(value), own_words, erased_at IS NOT NULL FROM answer"
    ).fetchall()
    assert kept == [(digest, 0, True, True)] * 2
    assert (await audit.find_problems(database))[1] == []
    view = await database.read(views.request_view, asked.request_id)
    assert view is not None
    assert (view.status, view.answer, view.answer_form is not None) == (RequestStatus.ANSWERED, None, True)
    card = str(cards.request_card(view).blocks)
    assert "Answered" in card
    assert "U0LINUS" in card
    assert "erased on" in card
    assert cards.request_details(view)
    async with database.connection() as connection:
        assert await views.requests_of(connection, ADA)
        assert await views.found_requests(connection, "T0SIGNOFF", RequestKind.DECIDED)
    assert await _erase(as_owner) == ErasureCounts()
    with pytest.raises(psycopg.errors.RestrictViolation):
        owner.execute("UPDATE answer SET value = '\"us\"', digest = sha256('\"us\"'), erased_at = NULL")


async def test_a_waiting_questions_form_is_not_erased(database: Database, owner: psycopg.Connection) -> None:
    """What people are being asked for stays, and so does what was asked for once it is not erased as a whole."""
    form = AnswerForm.of({"enum": ["eu", "us"]})
    asked = await ask(database, answer_form=form)
    erased = '{"schema": {"enum": ["erased"]}, "order": []}'
    erase = f"UPDATE approval_request SET answer_form = answer_form || '{erased}'"
    for status in ("waiting", "answered"):
        with pytest.raises(psycopg.errors.RestrictViolation):
            owner.execute(erase)
        if status == "waiting":
            await alone.vote(database, ballot(asked, reviewer(GRACE), "answer", answer=form.read("eu")))
    view = await database.read(views.request_view, asked.request_id)
    assert view is not None
    assert view.answer_form == form
