"""What somebody who owns the tables could do to the record and to what consent rests on: each is found."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs

from agent.database.pools import Database
from agent.domain.answers import AnswerForm
from agent.domain.audit import event_hash, genesis
from agent.domain.request import ExecutionStatus
from agent.usecases import audit, requests
from agent.usecases.calls import Outcome
from signoff.values import Action
from slackbot.masking import clean_event
from tests.integration import alone
from tests.integration.asking import GRACE, LINUS, ask, ballot, reviewer, rule
from tests.integration.command import Command
from tests.integration.test_settling import doubt_of_two

Owner = psycopg.Connection[Any]

OTHER = Action("process_refund", "1", {"order_id": 0, "amount": 1_000_000})
CUT = (
    "DELETE FROM audit_event AS e WHERE e.subject LIKE 'request:%' AND e.seq = (SELECT seq FROM audit_head"
    " WHERE subject = e.subject)"
)
WIND_BACK = """
UPDATE audit_head AS h SET seq = e.seq, hash = e.hash FROM audit_event AS e
WHERE e.subject = h.subject AND e.subject LIKE 'request:%' AND e.seq = (
    SELECT max(seq) FROM audit_event WHERE subject = h.subject)
"""


def written_anew(owner: Owner) -> None:
    """Somebody else voted, says the row, says the event, and the chain with its head holds."""
    owner.execute("UPDATE vote SET user_id = 'U0EVE' WHERE user_id = 'U0LINUS'")
    owner.execute(
        "UPDATE audit_event SET actor = replace(actor, 'U0LINUS', 'U0EVE') WHERE event = 'vote.cast'"
    )
    rows = owner.execute("""
        SELECT subject, seq, at, actor, event, detail FROM audit_event WHERE subject LIKE 'request:%' ORDER BY seq
    """).fetchall()
    previous = genesis(rows[0][0])
    for subject, seq, at, actor, event, detail in rows:
        digest = event_hash(previous, subject, seq, at, actor, event, detail)
        owner.execute(
            "UPDATE audit_event SET hash = %s WHERE subject = %s AND seq = %s", (digest, subject, seq)
        )
        previous = digest
    owner.execute("UPDATE audit_head SET hash = %s WHERE subject LIKE 'request:%%'", (previous,))


def revised(owner: Owner) -> None:
    """The action and all digests of it but the recorded ones."""
    owner.execute("UPDATE request_revision SET action = %s, digest = %s", (OTHER.canonical, OTHER.digest))
    owner.execute("UPDATE decision SET digest = %s", (OTHER.digest,))
    ran_otherwise(owner)


def ran_otherwise(owner: Owner) -> None:
    owner.execute("UPDATE execution SET digest = %s", (OTHER.digest,))


def statements(*all_of_it: str) -> Callable[[Owner], None]:
    def tamper(owner: Owner) -> None:
        for each in all_of_it:
            assert owner.execute(each).rowcount, each

    return tamper


MANIPULATIONS: dict[str, Callable[[Owner], None]] = {
    "an event is changed": statements(
        "UPDATE audit_event SET actor = 'U0EVE' WHERE event = 'request.decided'"
    ),
    "an event is deleted": statements("DELETE FROM audit_event WHERE event = 'vote.cast'"),
    "a chain is cut": statements(CUT),
    "a chain has no head": statements("DELETE FROM audit_head WHERE subject LIKE 'request:%'"),
    "a subject has no chain": statements(
        "DELETE FROM audit_event WHERE subject LIKE 'run:%'",
        "DELETE FROM audit_head WHERE subject LIKE 'run:%'",
    ),
    "a head is wound back": statements(
        "DELETE FROM audit_event WHERE event = 'execution.succeeded'",
        WIND_BACK,
        "UPDATE execution SET status = 'claimed', result = NULL, finished_at = NULL WHERE status = 'succeeded'",
    ),
    "a chain is written anew": written_anew,
    "a decision is another": statements(
        "UPDATE decision SET outcome = 'rejected'", "UPDATE approval_request SET status = 'rejected'"
    ),
    "a decision is somebody else's": statements("UPDATE decision SET user_id = 'U0EVE'"),
    "others are said to have approved": statements(
        'UPDATE decision SET approved_by = \'[["T0SIGNOFF", "U0EVE"], ["T0SIGNOFF", "U0GRACE"]]\''
    ),
    "one of those who approved is left out": statements("UPDATE decision SET approved_by = '[]'"),
    "a decision is gone": statements(
        "DELETE FROM decision", "UPDATE approval_request SET status = 'waiting', decided_at = NULL"
    ),
    "a vote is invented": statements("""
        INSERT INTO vote (id, request_id, revision, team_id, user_id, verdict, path)
        SELECT gen_random_uuid(), id, 1, 'T0SIGNOFF', 'U0EVE', 'approve', 'slack_button' FROM approval_request"""),
    "a vote is turned round": statements("UPDATE vote SET verdict = 'reject' WHERE user_id = 'U0LINUS'"),
    "a vote is put aside": statements(
        "UPDATE vote SET superseded_by = (SELECT id FROM vote WHERE user_id = 'U0GRACE') WHERE user_id = 'U0LINUS'"
    ),
    "a revision says something else": revised,
    "an attempt ran something else": ran_otherwise,
    "an attempt had another outcome": statements(
        "UPDATE execution SET status = 'succeeded', result = 'done' WHERE status = 'in_doubt'"
    ),
    "one person asked for Retry, and it was another": statements("UPDATE settlement SET user_id = 'U0EVE'"),
}


BEHIND_THE_HEADS = {"a head is wound back", "a chain is written anew"}
"""What only heads that are kept elsewhere can show."""


async def decided_and_done(database: Database) -> None:
    """Two people approved, the first attempt was in doubt, two people wanted it again, and it was done."""
    asked, claim = await doubt_of_two(database)
    await requests.settle(database, claim.execution_id, reviewer(GRACE), "retry")
    await requests.settle(database, claim.execution_id, reviewer(LINUS), "retry", others=[reviewer(GRACE)])
    again = await alone.claim(database, asked.call_id, worker="w", idempotent=False)
    assert again is not None
    await alone.report(database, again, Outcome(ExecutionStatus.SUCCEEDED, "done"))


@pytest.mark.parametrize("manipulation", MANIPULATIONS)
async def test_manipulations_are_found(database: Database, owner: Owner, manipulation: str) -> None:
    """Whatever an owner changes past the triggers shows against the chains, or against heads kept elsewhere."""
    await decided_and_done(database)
    kept = [head async for head in audit.heads(database)]
    assert (await audit.find_problems(database, kept))[1] == []
    with owner.transaction():
        owner.execute("SET LOCAL session_replication_role = replica")
        owner.execute("ALTER TABLE audit_event DISABLE TRIGGER audit_event_is_final")
        MANIPULATIONS[manipulation](owner)
        owner.execute("ALTER TABLE audit_event ENABLE ALWAYS TRIGGER audit_event_is_final")
    shown = (await audit.find_problems(database))[1]
    assert bool(shown) == (manipulation not in BEHIND_THE_HEADS)
    assert (await audit.find_problems(database, kept))[1]


OF_ANSWERS: dict[str, Callable[[Owner], None]] = {
    "another value": statements(
        """UPDATE answer SET value = '"us"', digest = sha256('"us"') WHERE value = '"the moon"'"""
    ),
    "a value that is not its digest's": statements(
        "ALTER TABLE answer DROP CONSTRAINT ck_answer_digest_of_value", """UPDATE answer SET value = '"us"'"""
    ),
    "a digest of an erased value": statements(
        "UPDATE answer SET value = '', erased_at = now(), digest = sha256('x')"
    ),
    "words that nobody wrote": statements("UPDATE answer SET own_words = false"),
    "of another question": statements("UPDATE answer SET request_id = gen_random_uuid()"),
    "removed": statements("DELETE FROM answer"),
    "invented": statements(
        "DELETE FROM answer",
        """INSERT INTO answer (vote_id, request_id, value, digest, own_words, created_at)
           SELECT id, request_id, '"us"', sha256('"us"'), false, now() FROM vote""",
    ),
    "another option": statements(
        """UPDATE approval_request SET answer_form = jsonb_set(answer_form, '{schema,enum,0}', '"moon"')"""
    ),
    "others who answer": statements(
        """UPDATE approval_request SET answer_form = jsonb_set(answer_form, '{answerers}', '["U0EVE"]')"""
    ),
    "a form that cannot be read": statements("UPDATE approval_request SET answer_form = '{}'"),
    "a number beyond a double": statements(
        "UPDATE approval_request SET answer_form = jsonb_set(answer_form, '{schema,x}', to_jsonb(1e400))"
    ),
    "no form": statements(
        "UPDATE approval_request SET answer_form = NULL, status = 'approved' WHERE status = 'answered'"
    ),
}


@pytest.mark.parametrize("manipulation", OF_ANSWERS)
async def test_manipulated_answers_are_found(database: Database, owner: Owner, manipulation: str) -> None:
    """A changed, moved, removed or invented answer, and a question that asks for something else, is an alarm."""
    schema = {"enum": ["eu", "us"]}
    numbers = {"a": {"type": "number", "minimum": -1e308, "maximum": 1e22, "examples": [1.0, -0.0, 5e-324]}}
    form = AnswerForm.of(schema, answers_required=2)
    asked = await ask(database, answer_form=form)
    others = [reviewer(GRACE), reviewer(LINUS)]
    for each in others:
        await alone.vote(database, ballot(asked, each, "answer", others, answer=form.read("the moon")))
    await ask(database, answer_form=AnswerForm.of({"type": "object", "properties": numbers}))
    assert (await audit.find_problems(database))[1] == []
    with owner.transaction():
        owner.execute("SET LOCAL session_replication_role = replica")
        OF_ANSWERS[manipulation](owner)
    assert str(asked.request_id) in str((await audit.find_problems(database))[1])


async def test_votes_beside_are_no_alarm(database: Database) -> None:
    """Verifying while people vote, decide and execute finds nothing."""
    asked = [await ask(database, rule(approvals_required=2)) for _ in range(12)]
    alarms: list[object] = []
    over = asyncio.Event()

    async def verify() -> None:
        while not over.is_set():
            alarms.extend((await audit.find_problems(database))[1])

    async def decide(each: Any) -> None:
        await alone.vote(database, ballot(each, reviewer(LINUS)))
        await alone.vote(database, ballot(each, reviewer(GRACE), others=[reviewer(LINUS)]))
        claim = await alone.claim(database, each.call_id, worker="w", idempotent=False)
        assert claim is not None
        await alone.report(database, claim, Outcome(ExecutionStatus.SUCCEEDED, "done"))

    verifying = asyncio.create_task(verify())
    for each in asked:
        await decide(each)
    over.set()
    await verifying
    assert alarms == []


async def test_requests_that_expire_together_are_logged_with_their_heads(
    database: Database, owner: Owner
) -> None:
    """Requests that expire in one transaction share a log line, which has the head of each and is shown unmasked."""
    asked = [await ask(database) for _ in range(3)]
    owner.execute("UPDATE approval_request SET expires_at = clock_timestamp()")
    with capture_logs() as logged:
        assert await requests.expire_due(database) == 3
    (line,) = [each for each in logged if each.get("action") == "request.expired"]
    assert sorted(line["request_ids"]) == sorted(str(each.request_id) for each in asked)
    heads = dict(owner.execute("SELECT substr(subject, 9), encode(hash, 'hex') FROM audit_head").fetchall())
    assert dict(zip(line["request_ids"], line["heads"], strict=True)).items() <= heads.items()
    assert (line["revisions"], line["head_seqs"]) == ([1, 1, 1], [2, 2, 2])
    assert clean_event(None, "info", dict(line)) == line


async def test_heads_are_kept_in_a_file(
    database: Database, owner: Owner, signoff: Command, tmp_path: Path
) -> None:
    """`audit verify --heads` with what `audit heads` printed finds a chain cut with its head; the log has heads too."""
    with capture_logs() as logged:
        await decided_and_done(database)
    kept = tmp_path / "heads.jsonl"
    kept.write_text((await asyncio.to_thread(signoff, "audit", "heads")).said, encoding="utf-8")
    assert (await asyncio.to_thread(signoff, "audit", "verify", "--heads", str(kept))).status == 0
    (decided,) = [each for each in logged if each.get("action") == "request.approved"]
    found = owner.execute(
        "SELECT encode(hash, 'hex') FROM audit_event WHERE subject = 'request:' || %s AND seq = %s",
        (decided["request_id"], decided["head_seq"]),
    ).fetchone()
    assert found == (decided["head"],)
    assert (decided["by"], decided["agent"], decided["tool"]) == (
        f"slack:{GRACE}",
        "refunds",
        "process_refund",
    )
    with owner.transaction():
        owner.execute("SET LOCAL session_replication_role = replica")
        owner.execute("ALTER TABLE audit_event DISABLE TRIGGER audit_event_is_final")
        MANIPULATIONS["a head is wound back"](owner)
        owner.execute("ALTER TABLE audit_event ENABLE ALWAYS TRIGGER audit_event_is_final")
    ended = await asyncio.to_thread(signoff, "audit", "verify", "--heads", str(kept))
    assert ended.status == 1
    assert "the saved head" in ended.said
    assert json.loads(kept.read_text(encoding="utf-8").splitlines()[0]).keys() == {"subject", "seq", "hash"}
