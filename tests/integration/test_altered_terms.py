"""What somebody who writes to the database could do to the rows that consent rests on: it is refused, and found."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from agent.database.pools import Database
from agent.domain.api_keys import Scope
from agent.domain.audit import ChainProblem
from agent.domain.errors import Refusal, Refused
from agent.domain.policy import Policy
from agent.usecases import api_keys, audit, pause, requests
from agent.usecases import grants as consents
from agent.usecases import policy as policies
from agent.usecases.requests.votes import VoteOutcome
from tests.integration import alone
from tests.integration.asking import (
    ADA,
    GRACE,
    LINUS,
    REVIEWERS,
    Asked,
    ask,
    ballot,
    column,
    programs_question,
    reviewer,
    rule,
    write,
)
from tests.integration.command import Command
from tests.integration.granting import allow, cover, use
from tests.integration.test_settling import doubt_of_two

Connection = psycopg.Connection[Any]

# The service's own login may write the first ones; the others are refused to it by triggers, and not to the owner.
OF_THE_LOGIN = {
    "reviewers are replaced": "UPDATE approval_request SET approvers = '[\"U0EVE\"]'",
    "a reviewer is added": "UPDATE approval_request SET approvers = approvers || '[\"U0EVE\"]'",
    "the deadline is moved": "UPDATE approval_request SET expires_at = expires_at + interval '1 microsecond'",
    "somebody else is excluded": """UPDATE approval_request SET excluded = excluded
        || '[{"team": "T0SIGNOFF", "user": "U0EVE", "why": "adviser"}]'""",
}
OF_THE_OWNER = {
    "exclusions are emptied": "UPDATE approval_request SET excluded = '[]'",
    "an exclusion is weaker": "UPDATE approval_request SET excluded = jsonb_set(excluded, '{0,why}', '\"adviser\"')",
    "a quorum of two is one": "UPDATE approval_request SET approvals_required = 1",
    "the requester is another": "UPDATE approval_request SET requester_user_id = 'U0EVE'",
}
ALTERED = "its reviewers, exclusions, quorum or deadline are not those on record"


@pytest.fixture
def login(database_url: str) -> Iterator[Connection]:
    """The service's own rights."""
    with psycopg.connect(Database(database_url).conninfo(), autocommit=True) as connection:
        yield connection


def alter(login: Connection, owner: Connection, what: str) -> None:
    if what in OF_THE_LOGIN:
        assert login.execute(OF_THE_LOGIN[what]).rowcount
    else:
        past_triggers(owner, OF_THE_OWNER[what])


def past_triggers(owner: Connection, *statements: str) -> None:
    with owner.transaction():
        owner.execute("SET LOCAL session_replication_role = replica")
        for each in statements:
            assert owner.execute(each).rowcount, each


async def problems(db: Database) -> list[ChainProblem]:
    return (await audit.find_problems(db))[1]


async def of_two(db: Database) -> Asked:
    return await ask(db, rule(approvals_required=2, prevent_self_review=True, allow_edit=True), requester=ADA)


@pytest.mark.parametrize("what", [*OF_THE_LOGIN, *OF_THE_OWNER])
async def test_altered_terms_are_refused_at_the_vote(
    database: Database, login: Connection, owner: Connection, signoff: Command, what: str
) -> None:
    """No vote counts on a request whose terms are not those on record, and `audit verify` names it."""
    asked = await of_two(database)
    assert await problems(database) == []
    alter(login, owner, what)
    for verdict in ("approve", "reject"):
        with pytest.raises(Refused) as caught:
            await alone.vote(database, ballot(asked, reviewer(GRACE, REVIEWERS, "U0EVE"), verdict))
        assert caught.value.code is Refusal.TERMS_ALTERED
    assert await column(database, "SELECT count(*) FROM vote") == [0]
    events = "SELECT detail ->> 'refusal' FROM audit_event WHERE event = 'vote.refused'"
    assert await column(database, events) == ["terms_altered"] * 2
    ended = await asyncio.to_thread(signoff, "audit", "verify")
    assert (ended.status, ALTERED in ended.said) == (1, True)


@pytest.mark.parametrize("what", [*OF_THE_LOGIN, *OF_THE_OWNER])
async def test_altered_terms_are_refused_at_the_claim(
    database: Database, login: Connection, owner: Connection, what: str
) -> None:
    """An approval whose terms are not those on record is not claimed."""
    asked = await of_two(database)
    await alone.vote(database, ballot(asked, reviewer(GRACE)))
    await alone.vote(database, ballot(asked, reviewer(LINUS), others=[reviewer(GRACE)]))
    assert await problems(database) == []
    alter(login, owner, what)
    assert await alone.claim(database, asked.call_id, worker="w", idempotent=False) is None
    assert await column(database, "SELECT count(*) FROM execution") == [0]
    assert [each.what for each in await problems(database)] == [ALTERED]


async def test_the_order_of_people_is_no_term(database: Database, login: Connection) -> None:
    """Reviewers and exclusions in another order are the same terms."""
    asked = await ask(database, rule(approvers=("U0GRACE", "U0LINUS")))
    login.execute('UPDATE approval_request SET approvers = \'["U0LINUS", "U0GRACE"]\'')
    voted = await alone.vote(database, ballot(asked, reviewer(GRACE, "U0GRACE")))
    assert isinstance(voted, VoteOutcome)
    assert await problems(database) == []


@pytest.mark.parametrize("value", ['["U0EVE", 1]', "[1e131071]", '[{"a": []}]'])
async def test_reviewers_that_cannot_be_read_hide_nothing(
    database: Database, login: Connection, value: str
) -> None:
    """Whatever stands in a row, it is a problem of that request, and the others are still compared."""
    bad, good = await ask(database), await ask(database)
    login.execute("UPDATE approval_request SET approvers = %s WHERE id = %s", [value, bad.request_id])
    login.execute("UPDATE approval_request SET expires_at = 'infinity' WHERE id = %s", [good.request_id])
    found = [each for each in await problems(database) if each.what == ALTERED]
    assert {each.subject for each in found} == {f"request:{each.request_id}" for each in (bad, good)}


async def test_an_escalation_does_not_put_altered_terms_on_record(
    database: Database, login: Connection
) -> None:
    """At its deadline a request with altered terms expires, and is not escalated to more people."""
    terms = rule(on_timeout="escalate", escalate_to=("U0LINUS",))
    altered = await ask(database, terms)
    login.execute(OF_THE_LOGIN["reviewers are replaced"])
    login.execute(
        "UPDATE approval_request SET expires_at = clock_timestamp(), created_at = created_at - interval '1 h'"
    )
    assert await requests.expire_due(database) == 1
    sql = "SELECT status::text FROM approval_request WHERE id = :id"
    assert await column(database, sql, id=altered.request_id) == ["expired"]
    assert ALTERED in {each.what for each in await problems(database)}


async def test_a_retry_is_refused_under_altered_terms(database: Database, login: Connection) -> None:
    """People who were made reviewers in the database alone do not have an action tried again."""
    _, claim = await doubt_of_two(database)
    login.execute(OF_THE_LOGIN["a reviewer is added"])
    with pytest.raises(Refused) as caught:
        await requests.settle(database, claim.execution_id, reviewer(GRACE), "retry")
    assert caught.value.code is Refusal.TERMS_ALTERED


async def test_a_grant_does_not_outlive_its_record(database: Database, owner: Connection) -> None:
    """A grant that was used up and counted back, or ended and revived, is found; altered terms cover nothing."""
    grant_id = await allow(database, max_uses=1, sum_of=None, max_sum=None)
    assert await use(database, cover(grant_id)) is not None
    assert await problems(database) == []
    past_triggers(owner, "UPDATE approval_grant SET uses = 0")
    assert [each.what for each in await problems(database)] == ["the grant counts 0 uses, and 1 are stored"]
    past_triggers(owner, "DELETE FROM grant_use")
    assert {each.what for each in await problems(database)} == {
        "of a grant's uses for one action 1 are on record, 0 are stored"
    }


async def test_a_revived_or_widened_grant_is_found(database: Database, owner: Connection) -> None:
    """The end of a grant and what it allows are compared with its events and its approved action."""
    grant_id = await allow(database)
    await consents.revoke_as_operator(database, grant_id, "cli:test")
    assert await problems(database) == []
    past_triggers(owner, "UPDATE approval_grant SET ended_at = NULL, ended_by = NULL, ended_because = NULL")
    assert [each.what for each in await problems(database)] == [
        "tells of the end of a grant that has not ended"
    ]
    past_triggers(owner, "UPDATE approval_grant SET max_uses = 100, until = 'infinity'")
    assert "the grant is not the one that was approved" in {each.what for each in await problems(database)}
    past_triggers(owner, "DELETE FROM approval_grant")
    assert "the grant that it asks for is gone" in {each.what for each in await problems(database)}


async def test_a_grant_under_altered_terms_covers_nothing(database: Database, login: Connection) -> None:
    """A call is not begun by a grant whose request has other terms than those on record."""
    grant_id = await allow(database)
    login.execute("UPDATE approval_request SET approvers = '[\"U0EVE\"]' WHERE id = %s", [grant_id])
    assert await use(database, cover(grant_id)) is None


KEYS = {
    "scopes are widened": """UPDATE api_key SET scopes = '["read", "admin"]'""",
    "the owner is another": "UPDATE api_key SET owner_user_id = 'U0EVE'",
    "it is bound to no agent": "UPDATE api_key SET agent = NULL",
    "it lasts for ever": "UPDATE api_key SET expires_at = 'infinity'",
    "its secret is another": "UPDATE api_key SET hash = sha256('mine')",
    "an earlier secret is valid": "UPDATE api_key SET old_hash = sha256('mine'), old_until = now() + interval '1 day'",
    "its revocation is undone": "UPDATE api_key SET revoked_at = NULL",
    "it is another's": "UPDATE api_key SET name = 'other'",
}


@pytest.mark.parametrize("what", KEYS)
async def test_an_altered_key_is_found(database: Database, login: Connection, what: str) -> None:
    """Scopes, owner, agent, expiry, secrets and revocation of a key are compared with its events."""
    given: dict[str, Any] = {"owner": ADA, "agent": "crm", "by": "cli:test"}
    await api_keys.create(database, "crm", [Scope.READ], **given)
    await api_keys.rotate(database, "crm", by="cli:test", keep_old=timedelta(hours=1))
    await api_keys.revoke(database, "crm", by="cli:test")
    assert await problems(database) == []
    assert login.execute(KEYS[what]).rowcount
    found = await problems(database)
    assert found
    assert {each.subject for each in found} <= {"key:crm", "key:other"}


async def test_an_altered_pause_is_found(database: Database, login: Connection) -> None:
    """A pause that is deleted, invented or in another's name is found; one that was ended is no alarm."""
    await pause.pause(database, None, by="cli:test", reason="look")
    await pause.pause(database, "refunds", by=GRACE)
    await pause.resume(database, "refunds", by=GRACE)
    assert await problems(database) == []
    login.execute("UPDATE pause SET by = 'cli:eve'")
    assert [each.what for each in await problems(database)] == ["is not the pause that is stored"]
    login.execute("DELETE FROM pause")
    assert [each.what for each in await problems(database)] == ["the pause is gone"]
    login.execute("INSERT INTO pause (scope, by) VALUES ('refunds', 'cli:eve')")
    assert "a pause is not on record" in {each.what for each in await problems(database)}


async def test_another_rule_is_found(database: Database, owner: Connection) -> None:
    """The rule that requests were opened under is stored once, and compared with the digest by which they name it."""
    asked = [await ask(database, rule(remind_at=(0.1, 1 / 3))) for _ in range(2)]
    assert await problems(database) == []
    (digest,) = await column(database, "SELECT digest FROM rule")
    past_triggers(owner, "UPDATE rule SET content = content || '{\"allow_edit\": true}'")
    [found] = await problems(database)
    assert found.subject == f"rule:{digest.hex()}"
    assert found.what == "the rule is not the one that requests were opened under"
    past_triggers(owner, "DELETE FROM rule")
    assert sorted(each.subject for each in await problems(database)) == sorted(
        f"request:{each.request_id}" for each in asked
    )


async def test_nothing_is_opened_under_a_rule_that_was_written_early(database: Database) -> None:
    """Whoever stores other terms under the digest of a rule to come stops its requests, and loosens none."""
    terms = rule(allow_edit=False)
    loose = rule(allow_edit=True).snapshot()
    await write(
        database,
        "INSERT INTO rule (digest, content) VALUES (:digest, CAST(:content AS jsonb))",
        digest=terms.digest,
        content=json.dumps(loose),
    )
    with pytest.raises(psycopg.errors.RestrictViolation, match="another rule is stored under this digest"):
        await ask(database, terms)
    assert await column(database, "SELECT count(*) FROM approval_request") == [0]


async def test_another_policy_text_is_found(database: Database, owner: Connection) -> None:
    """The text of each policy is compared with the digest that was recorded when it came into force."""
    await policies.apply(database, Policy(source="# one\n"), by="cli:test")
    await policies.apply(database, Policy(source="# two\n"), by="cli:test")
    assert await problems(database) == []
    past_triggers(owner, "UPDATE policy SET source = '# three' WHERE epoch = 2")
    assert [each.what for each in await problems(database)] == ["policy 2 is not the one that is stored"]
    past_triggers(owner, "DELETE FROM policy WHERE epoch = 2")
    assert [each.what for each in await problems(database)] == ["tells of a policy that is gone"]


@pytest.mark.parametrize("by_program", [False, True])
async def test_another_executor_is_found(database: Database, login: Connection, by_program: bool) -> None:
    """Who carries a call out was on record when people were asked; a row that says otherwise is a problem."""
    if by_program:
        request_id = (await requests.open(database, programs_question(rule()))).request_id
    else:
        request_id = (await ask(database)).request_id
    assert await problems(database) == []
    login.execute("UPDATE tool_call SET executor = %s", ["none" if by_program else "program"])
    [found] = await problems(database)
    assert (found.subject, found.what) == (
        f"request:{request_id}",
        "its call, or who carries it out, is not that on record",
    )
