"""Verifying the audit log goes on from what was verified before, and says what it has not read again."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from agent.database.pools import Database
from agent.domain.audit import AuditKind, VerifiedHead, event_hash, genesis
from agent.store import audit as chains
from agent.usecases import audit
from tests.integration import alone
from tests.integration.asking import LINUS, ask, ballot, reviewer
from tests.integration.command import Command
from tests.integration.test_tampering import decided_and_done
from tests.statement_counter import counting

Owner = psycopg.Connection[Any]


class Kept:
    """What an earlier run verified."""

    def __init__(self) -> None:
        self.lines: list[VerifiedHead] = []
        self.finished = False

    async def verify(self, db: Database, *, again: datetime | None = None) -> tuple[int, list[str]]:
        """The number of events, and the problems."""
        earlier, self.lines, self.finished = self.lines, [], False

        def finish() -> None:
            self.finished = True

        resumption = audit.Resumption(earlier, self.lines.append, finish, again or audit.NEVER)
        events, found = await audit.find_problems(db, resumption=resumption)
        return events, [str(each) for each in found]


@pytest.fixture
def tamperer(owner: Owner) -> Owner:
    """Owns the tables and has switched off what protects them."""
    owner.execute("ALTER TABLE audit_event DISABLE TRIGGER ALL")
    owner.execute("SET session_replication_role = replica")
    return owner


@pytest.fixture
async def kept(database: Database) -> Kept:
    """Of a request that was decided and executed, its run, and two that wait."""
    await decided_and_done(database)
    for _ in range(2):
        await ask(database)
    found = Kept()
    assert (await found.verify(database))[1] == []
    assert found.finished
    return found


async def test_verified_chains_are_not_read_again(database: Database, kept: Kept) -> None:
    """A run that goes on from another reads no event of chains that have not changed, and keeps when they were read."""
    before = kept.lines
    assert await kept.verify(database) == (0, [])
    assert kept.lines == before
    with_later = before[0].at + timedelta(seconds=1)
    assert (await kept.verify(database, again=with_later))[1] == []
    assert [each.head for each in kept.lines] == [each.head for each in before]
    assert all(each.at > before[0].at for each in kept.lines)


async def test_what_came_since_is_verified(database: Database, kept: Kept, tamperer: Owner) -> None:
    """New chains and new events of verified ones are read, and an altered one among them is a problem."""
    asked = await ask(database)
    await kept.verify(database)
    await alone.vote(database, ballot(asked, reviewer(LINUS)))
    new = await ask(database)
    assert (await kept.verify(database))[1] == []
    tamperer.execute(
        "UPDATE audit_event SET actor = 'cli:eve' WHERE subject = %s", [f"request:{new.request_id}"]
    )
    await alone.vote(database, ballot(new, reviewer(LINUS)))
    tamperer.execute(
        "UPDATE audit_event SET actor = 'cli:eve' WHERE subject = %s AND event = 'request.decided'",
        [f"request:{new.request_id}"],
    )
    for _ in range(2):  # nobody forgets
        [*_, last] = (await kept.verify(database))[1]
        assert str(new.request_id) in last


FOUND = {
    "the last event is another": (
        "UPDATE audit_event AS e SET hash = sha256('x')"
        " WHERE seq = (SELECT seq FROM audit_head WHERE subject = e.subject)"
    ),
    "an early event is deleted": "DELETE FROM audit_event WHERE event = 'vote.cast'",
    "another event stands in for a deleted one": (
        "UPDATE audit_event AS e SET seq = (SELECT seq + 1 FROM audit_head WHERE subject = e.subject)"
        " WHERE event = 'request.decided'"
    ),
    "an event is doubled in place of a deleted one": (
        "UPDATE audit_event SET seq = seq - 1 WHERE event = 'request.decided'"
    ),
    "a chain is gone": "DELETE FROM audit_event WHERE subject LIKE 'run:%'",
    "a chain is gone with its head": "DELETE FROM audit_event WHERE subject LIKE 'request:%'",
    "a head is another": "UPDATE audit_head SET hash = sha256('x') WHERE subject LIKE 'request:%'",
    "a head is gone": "DELETE FROM audit_head WHERE subject LIKE 'request:%'",
    "a row is another": "UPDATE decision SET user_id = 'U0EVE'",
}


@pytest.mark.parametrize("manipulation", FOUND)
async def test_manipulations_are_found_by_a_resumed_run(
    database: Database, kept: Kept, tamperer: Owner, manipulation: str
) -> None:
    """A resumed run finds changed rows, heads and last events, and missing events, and so does the next."""
    if "doubled" in manipulation:
        tamperer.execute("ALTER TABLE audit_event DROP CONSTRAINT pk_audit_event")
    assert tamperer.execute(FOUND[manipulation]).rowcount
    if manipulation == "a chain is gone with its head":
        tamperer.execute("DELETE FROM audit_head WHERE subject LIKE 'request:%'")
    before = [each.head for each in kept.lines]
    for _ in range(2):
        assert (await kept.verify(database))[1]
        assert [each.head for each in kept.lines] == before


async def test_a_chain_that_was_rewritten_is_found_each_time(
    database: Database, kept: Kept, tamperer: Owner
) -> None:
    """A chain rewritten with its head is valid in itself; the verified head shows it, in every later run."""
    [(subject, at, event, detail)] = tamperer.execute(
        "SELECT subject, at, event, detail FROM audit_event WHERE subject LIKE 'run:%' AND seq = 1 LIMIT 1"
    ).fetchall()
    digest = event_hash(genesis(subject), subject, 1, at, "cli:eve", event, detail)
    tamperer.execute("DELETE FROM audit_event WHERE subject = %s AND seq > 1", [subject])
    tamperer.execute(
        "UPDATE audit_event SET actor = 'cli:eve', hash = %s WHERE subject = %s", [digest, subject]
    )
    tamperer.execute("UPDATE audit_head SET seq = 1, hash = %s WHERE subject = %s", [digest, subject])
    for again in (None, datetime.now(UTC) + timedelta(days=1), None):
        found = (await kept.verify(database, again=again))[1]
        assert any(subject in each and "saved head" in each for each in found)


async def test_an_old_event_changed_in_place_is_found_when_it_is_read_again(
    database: Database, kept: Kept, tamperer: Owner
) -> None:
    """What a resumed run cannot see, an old event and its row changed together, shows once `again` has passed."""
    tamperer.execute("UPDATE vote SET user_id = 'U0EVE' WHERE user_id = 'U0LINUS'")
    tamperer.execute(
        "UPDATE audit_event SET actor = replace(actor, 'U0LINUS', 'U0EVE') WHERE event = 'vote.cast'"
    )
    assert (await kept.verify(database))[1] == []
    found = (await kept.verify(database, again=datetime.now(UTC) + timedelta(seconds=1)))[1]
    assert any("does not match its hash" in each for each in found)


async def test_heads_that_did_not_verify_are_not_trusted(
    database: Database, kept: Kept, tamperer: Owner
) -> None:
    """A chain with a problem is not among what is verified, and is read again."""
    new = await ask(database)
    tamperer.execute(
        "UPDATE audit_event SET actor = 'cli:eve' WHERE subject = %s", [f"request:{new.request_id}"]
    )
    for _ in range(2):
        assert (await kept.verify(database))[1]
        assert str(new.request_id) not in str(kept.lines)


@pytest.fixture
def other_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains are read two at a time, and four verified heads ahead."""
    monkeypatch.setattr(audit, "SUBJECTS", 2)
    monkeypatch.setattr(audit, "_AHEAD", 4)


@pytest.mark.usefixtures("other_groups")
async def test_groups_of_chains_are_verified_whatever_is_between(
    database: Database, kept: Kept, tamperer: Owner
) -> None:
    """New chains between verified ones, gone ones and several groups: all are verified, and no head is forgotten."""
    for _ in range(5):
        await ask(database)
    subjects = [each.head.subject for each in kept.lines]
    assert (await kept.verify(database))[1] == []
    order = [each.head.subject for each in kept.lines]
    assert [each for each in order if each in subjects] == subjects
    gone = order[1:7]
    for table in ("audit_event", "audit_head"):
        tamperer.execute(f"DELETE FROM {table} WHERE subject = ANY(%s)", [gone])
    found = (await kept.verify(database))[1]
    assert {each.split(" ")[0] for each in found if "no event is left" in each} == set(gone)
    assert sorted(each.head.subject for each in kept.lines) == sorted(order)


async def test_an_interrupted_run_goes_on(
    database: Database, signoff: Command, tmp_path: Path, kept: Kept
) -> None:
    """After a crash the next `audit verify --resume` takes over what was verified, and the old file's rest."""
    file, part = tmp_path / "verified", tmp_path / "verified.part"
    assert (await asyncio.to_thread(signoff, "audit", "verify", "--resume", str(file))).status == 0
    whole = file.read_text().splitlines(keepends=True)
    assert json.loads(whole[0]).keys() == {"subject", "seq", "hash", "verified"}
    assert not part.exists()
    part.write_text("".join(whole[:2]) + whole[2][:30])
    file.write_text("".join([whole[0], *whole[2:]]))
    ended = await asyncio.to_thread(signoff, "audit", "verify", "--resume", str(file), "--progress")
    assert ended.status == 0
    assert "\nvotes\n" in ended.said
    assert file.read_text().splitlines(keepends=True) == whole
    assert not part.exists()
    file.write_text("{}\n")
    ended = await asyncio.to_thread(signoff, "audit", "verify", "--resume", str(file))
    assert ended.status == 2
    assert "is not output of" in ended.said


async def _record(db: Database, chain_count: int, first: int) -> None:
    async with db.transaction() as tx:
        entry = chains.AuditEntry(AuditKind.REVIEW_NOT_REQUIRED, "api:busy", {"digest": "d" * 64})
        heads = await chains.lock_heads(tx, [f"key:{n:05}" for n in range(first, first + chain_count)])
        chains.append_all(tx, [(head, entry) for head in heads.values() for _ in range(2)])


async def test_many_chains_take_few_statements_and_little_memory(database: Database) -> None:
    """Thousands of chains are read some hundred at a time; ten times as many heads and events take no more memory."""
    peaks: list[tuple[int, int]] = []
    statements = []
    for first, more in ((0, 400), (400, 3600)):
        await _record(database, more, first)
        await audit.find_problems(database)  # what is cached for good
        with counting() as counted:
            tracemalloc.start()
            try:
                events, found = await audit.find_problems(database)
                verified = tracemalloc.get_traced_memory()[1]
                tracemalloc.reset_peak()
                count = len([None async for _ in audit.heads(database, 100)])
                peaks.append((verified, tracemalloc.get_traced_memory()[1]))
            finally:
                tracemalloc.stop()
        statements.append(len(counted.statements))
        assert (events, count, found) == (2 * (first + more), first + more, [])
    assert peaks[1][0] < 1.5 * peaks[0][0]
    assert peaks[1][1] < 1.5 * peaks[0][1]
    assert statements[1] - statements[0] <= 3600 / 100 + 2 * (3600 / audit.SUBJECTS + 1)
