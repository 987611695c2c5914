"""What somebody with the service's own login could append to the audit log: nothing of it hides anything else."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.database.pools import Database
from agent.domain.audit import ChainProblem, event_hash, genesis
from agent.store import audit as chains
from agent.usecases import audit
from signoff.errors import MalformedArguments
from tests.integration.command import Command
from tests.integration.test_tampering import decided_and_done

Login = psycopg.Connection[Any]

TAMPERED = "UPDATE decision SET user_id = 'U0EVE'"
COMPARED = (
    *(
        "request.opened",
        "request.edited",
        "request.decided",
        "request.expired",
        "request.withdrawn",
        "vote.cast",
    ),
    *("execution.claimed", "execution.succeeded", "execution.failed", "execution.in_doubt"),
    *("execution.settled", "execution.retry_wanted"),
    *(
        "request.escalated",
        "grant.used",
        "grant.ended",
        "policy.applied",
        "executions.paused",
        "executions.resumed",
    ),
    *("key.created", "key.rotated", "key.revoked"),
)
MEMBERS = (
    *("revision", "verdict", "outcome", "digest", "execution", "attempt", "as", "more"),
    *("terms", "grant", "because", "epoch", "text", "restores", "scope", "reason"),
)
NUMBERS_BEYOND = f"[{','.join(['1e131071'] * 20_000)}]"
"""A few bytes in PostgreSQL, and 2.6 GB as text."""


@pytest.fixture
def login(database_url: str) -> Iterator[Login]:
    """The service's own rights."""
    with psycopg.connect(Database(database_url).conninfo(), autocommit=True) as connection:
        yield connection


@pytest.fixture
def request_id(database_url: str, owner: Login) -> UUID:
    """Of a request whose decision is now in another's name."""

    async def decide() -> None:
        async with Database(database_url) as database:
            await decided_and_done(database)
            assert (await audit.find_problems(database))[1] == []

    asyncio.run(decide())
    owner.execute("ALTER TABLE decision DISABLE TRIGGER ALL")
    owner.execute(TAMPERED)
    [(found,)] = owner.execute("SELECT request_id FROM decision").fetchall()
    assert isinstance(found, UUID)
    return found


def append(
    login: Login, subject: str, event: str, detail: str, at: str = "2026-11-23 12:00Z", actor: str = "signoff"
) -> int:
    """Join the chain as the service does, with the hash that fits if there is one."""
    head = login.execute("SELECT seq, hash FROM audit_head WHERE subject = %s", [subject]).fetchone()
    seq, previous = (head[0] + 1, head[1]) if head else (1, genesis(subject))
    try:
        digest = event_hash(
            previous, subject, seq, datetime.fromisoformat(at), actor, event, json.loads(detail)
        )
    except (MalformedArguments, ValueError, RecursionError):
        digest = b"?" * 32
    login.execute(
        "INSERT INTO audit_event (subject, seq, at, actor, event, detail, hash)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s)",
        [subject, seq, at, actor, event, detail, digest],
    )
    login.execute(
        "INSERT INTO audit_head (subject, seq, hash) VALUES (%s, %s, %s)"
        " ON CONFLICT (subject) DO UPDATE SET seq = excluded.seq, hash = excluded.hash",
        [subject, seq, digest],
    )
    return seq


async def _problems(url: str, page: int) -> list[ChainProblem]:
    async with Database(url) as database:
        return (await audit.find_problems(database, page=page))[1]


def problems(url: str, page: int = chains.PAGE) -> list[ChainProblem]:
    return asyncio.run(_problems(url, page))


def tampering_is_told(found: list[ChainProblem], request_id: UUID) -> bool:
    told = [each for each in found if each.subject == f"request:{request_id}"]
    return any(each.what == "is not the decision that is stored" for each in told)


RAW = (
    *(
        "null",
        "true",
        "0",
        "1",
        "-1",
        "1.0",
        "1.50",
        "1e400",
        "-1e400",
        "1" * 5000,
        "9007199254740993",
        "1e-400",
        "-0.0",
    ),
    *(
        '"1"',
        '"1.0"',
        '"NaN"',
        '"Infinity"',
        '"-1"',
        '"' + "9" * 400 + '"',
        '""',
        '" 1"',
        '"١"',
        '"approve"',
        '"retry"',
    ),
    *('"approved"', '"00000000-0000-0000-0000-000000000000"', '"{}"', '"not-a-uuid"', '"' + "z" * 64 + '"'),
    *(
        "{}",
        "[]",
        '{"revision": 1}',
        "[1]",
        "[" * 70 + "]" * 70,
        "[" * 3000 + "]" * 3000,
        '"' + "x" * 700_000 + '"',
    ),
)
# Neither NUL nor lone surrogates: jsonb cannot hold them.
TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
).map(json.dumps)
VALUES = st.sampled_from(RAW) | ANY_JSON
OBJECTS = st.dictionaries(st.sampled_from(MEMBERS), VALUES, max_size=6).map(
    lambda members: "{" + ",".join(f"{json.dumps(name)}: {value}" for name, value in members.items()) + "}"
)
TIMES = ("2026-11-23 12:00Z", "infinity", "-infinity", "4000-01-01 BC", "290000-01-01Z", "0001-01-01Z")


@settings(deadline=None, max_examples=120)
@given(
    data=st.data(),
    event=st.sampled_from(COMPARED),
    detail=OBJECTS | VALUES,
    at=st.sampled_from(TIMES),
    actor=st.sampled_from(("signoff", "slack:T0SIGNOFF/U0LINUS", "slack:T0SIGNOFF/U0EVE", "x" * 300_000, "")),
)
def _any_event_hides_nothing(
    url: str,
    login: Login,
    owner: Login,
    request_id: UUID,
    data: st.DataObject,
    event: str,
    detail: str,
    at: str,
    actor: str,
) -> None:
    own = f"request:{request_id}"
    subject = data.draw(
        st.sampled_from((own, "", "key:x", f"request:{uuid4()}", "run:not-a-uuid", "a\x1b[2J\n b"))
    )
    try:
        seq = append(login, subject, event, detail, at, actor)
        found = problems(url, page=data.draw(st.sampled_from((2, chains.PAGE))))
        assert tampering_is_told(found, request_id)
        assert any((each.subject, each.seq) == (subject, seq) for each in found), found
        assert {each.subject for each in found} <= {subject, own}
    finally:
        owner.execute(
            "DELETE FROM audit_event WHERE hash IN (SELECT hash FROM audit_head WHERE subject = %s)",
            [subject],
        )
        owner.execute("DELETE FROM audit_head WHERE subject = %s", [subject])
        owner.execute(
            "INSERT INTO audit_head SELECT DISTINCT ON (subject) subject, seq, hash FROM audit_event"
            " WHERE subject = %s ORDER BY subject, seq DESC",
            [subject],
        )


def test_no_event_hides_a_tampered_decision(
    database_url: str, login: Login, owner: Login, request_id: UUID
) -> None:
    """Whatever event is appended to whichever chain, it is a problem of its own, and the tampered decision another."""
    owner.execute("ALTER TABLE audit_event DISABLE TRIGGER ALL")
    _any_event_hides_nothing(database_url, login, owner, request_id)


@pytest.mark.parametrize("page", [1, 2, chains.PAGE])
def test_a_detail_that_has_no_text_hides_nothing(
    database_url: str, login: Login, request_id: UUID, page: int
) -> None:
    """Numbers that PostgreSQL stores and cannot write out are one problem; the events beside them are verified."""
    own = f"request:{request_id}"
    detail = f'{{"verdict": {NUMBERS_BEYOND}, "revision": {NUMBERS_BEYOND}, "execution": {NUMBERS_BEYOND}}}'
    seqs = [append(login, own, event, detail) for event in ("vote.cast", "execution.claimed", "other")]
    append(login, own, "other", "{}")
    found = problems(database_url, page)
    assert tampering_is_told(found, request_id)
    unreadable = [each.seq for each in found if each.what.startswith("cannot be read")]
    assert unreadable == seqs
    assert {each.subject for each in found} == {own}


@pytest.mark.parametrize(
    ("subject", "event", "detail"),
    [
        ("own", "vote.cast", '{"verdict": "approve", "revision": "1.0"}'),
        ("own", "request.decided", '{"revision": "1.0"}'),
        ("own", "execution.claimed", '{"execution": "not a uuid", "attempt": "NaN"}'),
        ("key:\x1b[2J\x1b[1A", "request.decided", "[]"),
    ],
)
def test_the_command_tells_all_of_it(
    signoff: Command, login: Login, request_id: UUID, subject: str, event: str, detail: str
) -> None:
    """`audit verify` names the tampered decision beside what was appended, one line each, and ends with exit code 1."""
    subject = f"request:{request_id}" if subject == "own" else subject
    seq = append(login, subject, event, detail)
    ended = signoff("audit", "verify")
    assert ended.status == 1
    lines = [line for line in ended.said.splitlines() if " #" in line]
    assert any(
        f"request:{request_id}" in line and "is not the decision that is stored" in line for line in lines
    )
    assert any(f"#{seq}: " in line and "is not the decision that is stored" not in line for line in lines)
    assert f"{len(lines)} problems" in ended.said
    assert "\x1b" not in ended.said


@pytest.mark.parametrize("table", ["vote", "execution", "settlement", "agent_run", "audit_head"])
def test_a_part_that_cannot_be_read_is_a_problem_of_its_own(
    database_url: str, owner: Login, request_id: UUID, table: str
) -> None:
    """What cannot be compared is told, and the other parts are verified in the same snapshot."""
    owner.execute(f"REVOKE SELECT ON {table} FROM signoff_app")
    found = problems(database_url)
    assert tampering_is_told(found, request_id)
    assert any(each.what.startswith(f"cannot be read: permission denied for table {table}") for each in found)


def test_what_was_found_is_told_if_the_database_is_lost(
    database_url: str, login: Login, request_id: UUID, owner: Login
) -> None:
    """After the connection was cut, the problems found until then are told, and that the rest is not verified."""
    append(login, "a first chain", "other", "[]")
    found: list[ChainProblem] = []

    async def verify() -> None:
        async with Database(database_url, application_name="verifier") as database:
            found.extend((await audit.find_problems(database))[1])

    def cut() -> None:
        sql = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'verifier' AND wait_event_type = 'Lock'"
        )
        while not owner.execute(sql).fetchall():
            time.sleep(0.01)

    async def verify_and_cut() -> None:
        await asyncio.gather(verify(), asyncio.to_thread(cut))

    with psycopg.connect(owner.info.dsn, password=owner.info.password) as holder:
        holder.execute(f"SET search_path TO {Database(database_url).schema}")
        holder.execute("LOCK TABLE vote IN ACCESS EXCLUSIVE MODE")
        asyncio.run(verify_and_cut())
    assert found[0].subject == "a first chain"
    assert (found[-1].subject, found[-1].what.startswith("the rest is not verified")) == ("database", True)
