"""Grants: given by those who may approve, used only within what they said, and dead at once when anything ends them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from sqlalchemy.exc import DBAPIError

from agent.database.pools import Database
from agent.database.transaction import fetch
from agent.domain.api_keys import Scope
from agent.domain.checkpoints import load
from agent.domain.errors import GrantRefused, NotFound, OutdatedPolicy, Refusal, Refused
from agent.domain.field_constraints import Between, Exact, Fits, OneOf
from agent.domain.grants import MAX_LIVE
from agent.domain.limits import Limit, Use
from agent.domain.people import Standing
from agent.domain.request import ExecutionStatus
from agent.domain.rules import GrantLimits
from agent.domain.run import CallState
from agent.store import concurrency, limits, views
from agent.store import grants as stored_grants
from agent.store import pause as stored_pause
from agent.store import policy as stored_policies
from agent.store.concurrency import ConcurrencyLimit
from agent.usecases import api_keys, calls, grants, pause, requests, runs
from agent.usecases import policy as policies
from agent.usecases.calls import CallToClaim, ClaimTerms, Outcome
from agent.usecases.grants import ProgramCall
from agent.usecases.requests import Edit
from signoff.errors import Conflict
from signoff.values import Action, Person, Risk
from tests.integration import alone
from tests.integration.asking import (
    ADA,
    GRACE,
    LINUS,
    REVIEWERS,
    REVIEWS,
    TEAM,
    Asked,
    ask,
    asked_as,
    ballot,
    blocked,
    column,
    programs_question,
    question,
    reviewer,
    rows,
    start,
    write,
)
from tests.integration.granting import (
    LIMITS,
    allow,
    approve,
    cover,
    grant_proposal,
    granting_rule,
    propose,
    race,
    to_cover,
    use,
)

USED = "SELECT uses FROM approval_grant WHERE request_id = :id"


async def events(db: Database, subject: str) -> list[str]:
    return await column(db, "SELECT event FROM audit_event WHERE subject = :of ORDER BY seq", of=subject)


async def ended(db: Database, grant_id: UUID) -> str | None:
    [because] = await column(
        db, "SELECT ended_because FROM approval_grant WHERE request_id = :id", id=grant_id
    )
    return because


async def test_a_use_claims_the_call_and_is_on_record(database: Database) -> None:
    """A covered call is claimed with its use; both audit chains and the grant's thread record it."""
    grant_id = await allow(database)
    claim = await use(database, cover(grant_id))
    assert claim is not None
    assert claim.action.arguments == {"order_id": 1}
    [(key, n, amount)] = await rows(database, "SELECT key, n, amount FROM grant_use")
    assert (key, n, amount) == (f"call:{claim.call_id}", 1, Decimal(1500))
    assert (await events(database, f"run:{claim.run_id}"))[-2:] == ["execution.claimed", "grant.used"]
    assert (await events(database, f"request:{grant_id}"))[-1] == "grant.used"
    [bundled] = await column(
        database,
        "SELECT not_before > created_at + interval '50 s' FROM delivery WHERE body ->> 'line' = 'grant_used'",
    )
    assert bundled
    assert claim.run_id is not None
    async with database.connection() as connection:
        [call] = await views.calls(connection, claim.run_id)
    assert (call.state, call.request_id) == (CallState.CLAIMED, None)


async def test_a_use_is_judged_against_what_was_allowed(database: Database) -> None:
    """Whatever a worker believes: a call beyond what people allowed, or of a run that has ended, does not begin."""
    grant_id = await allow(database)
    beyond = (
        to_cover(order=101),
        to_cover(price=2001),
        to_cover(agent_version="2"),
        to_cover(above=("other",)),
    )
    for call in beyond:
        assert await use(database, cover(grant_id, call)) is None
    run_id, (call_id,) = await start(database)
    assert await runs.cancel(database, run_id, Standing(ADA))
    assert await use(database, cover(grant_id), (run_id, call_id)) is None
    assert await use(database, cover(grant_id)) is not None


async def test_a_grant_that_was_changed_behind_its_record_covers_nothing(
    database: Database, owner: psycopg.Connection[Any]
) -> None:
    """What people approved is what the audit log says, not what a row says by now."""
    grant_id = await allow(database)
    found = "SELECT action FROM request_revision WHERE request_id = :id"
    [action] = await column(database, found, id=grant_id)
    more = Action.from_canonical(bytes(action).replace(b'"to":100}', b'"to":900}'))
    owner.execute("SET session_replication_role = replica")
    changed = "UPDATE request_revision SET action = %s, digest = %s WHERE request_id = %s"
    owner.execute(changed, [more.canonical, more.digest, grant_id])
    owner.execute("UPDATE decision SET digest = %s WHERE request_id = %s", [more.digest, grant_id])
    owner.execute("RESET session_replication_role")
    for order in (1, 500):
        assert await use(database, cover(grant_id, to_cover(order=order))) is None


async def test_uses_and_sum_are_never_exceeded(database: Database) -> None:
    """The third use fits and a fourth does not, nor does one that exceeds the sum."""
    grant_id = await allow(database)
    dear = cover(grant_id, to_cover(price=2000))
    for expected in (True, True, False):
        assert (await use(database, dear) is not None) is expected
    assert await use(database, cover(grant_id, to_cover(price=500))) is not None
    assert await use(database, cover(grant_id, to_cover(price=0))) is None
    assert await column(database, USED, id=grant_id) == [3]


async def test_a_sum_that_is_reached_has_no_room_for_the_smallest_amount(database: Database) -> None:
    """No sum is rounded: people are asked about a price of 1e-30 under a grant whose sum is used up."""
    grant_id = await allow(database, max_uses=10, max_sum=Decimal(1500))
    assert await use(database, cover(grant_id)) is not None
    for price, covered in ((1e-30, False), (0, True)):
        begun = await use(database, cover(grant_id, to_cover(price=price)))
        assert (begun is not None) is covered


@pytest.mark.parametrize(
    ("terms", "last"),
    [({"max_uses": 4, "sum_of": None, "max_sum": None}, 4), ({"max_uses": 50, "max_sum": Decimal(4500)}, 3)],
)
async def test_twenty_workers_race_for_the_last_use(
    database: Database, terms: dict[str, Any], last: int
) -> None:
    """However many ask at once, exactly as many begin as uses, or as the sum, allow."""
    assert await race(database, [], **terms) == last
    assert await column(database, "SELECT count(*) FROM execution") == [last]


async def test_expiry_is_by_the_clock_of_the_database(database: Database) -> None:
    """A grant whose time is over covers nothing, whatever a worker's clock says."""
    grant_id = await allow(database, lasts=timedelta(milliseconds=1))
    assert await use(database, cover(grant_id)) is None


@pytest.mark.parametrize("scope", ["refunds", None])
async def test_a_pause_ends_a_grant_for_good(database: Database, scope: str | None) -> None:
    """Resuming does not wake it up: consent in advance was for work that nobody had to stop."""
    grant_id = await allow(database)
    await pause.pause(database, scope, by="cli:root")
    await pause.resume(database, scope, by="cli:root")
    assert await use(database, cover(grant_id)) is None
    assert await ended(database, grant_id) == "paused"
    assert (await events(database, f"request:{grant_id}"))[-1] == "grant.ended"


async def test_a_pause_of_an_agent_above_ends_a_grant(database: Database) -> None:
    """What was allowed below an agent ends when that one has to stop."""
    above, _ = await start(database, agent="orders")
    asked = await ask(database, granting_rule(), parent=above)
    await approve(database, asked, GRACE)
    grant_id = await propose(database, grant_proposal(asked))
    await approve(database, await asked_as(database, grant_id, asked.call_id, asked.run_id), GRACE)
    await pause.pause(database, "orders", by="cli:root")
    assert await ended(database, grant_id) == "paused"


async def test_a_pause_of_another_agent_ends_nothing(database: Database) -> None:
    """Only the agent of a grant, and those above it, matter."""
    grant_id = await allow(database)
    await pause.pause(database, "other", by="cli:root")
    assert await use(database, cover(grant_id)) is not None


async def test_a_revoked_grant_covers_nothing(database: Database) -> None:
    """One click ends it; a second one changes nothing."""
    grant_id = await allow(database)
    for expected in (True, False):
        done = await grants.revoke(
            database, grant_id, reviewer(LINUS), (REVIEWERS,), administrator=False, path="slack_button"
        )
        assert done is expected
    assert await use(database, cover(grant_id)) is None


@pytest.mark.parametrize(
    ("standing", "administrator", "refusal"),
    [
        (reviewer(LINUS), False, None),
        (reviewer(GRACE), False, None),
        (reviewer(ADA), False, None),
        (Standing(LINUS), True, None),
        (Standing(LINUS), False, Refusal.NOT_YOURS_TO_REVOKE),
        (Standing(LINUS, frozenset({"U0OTHER"})), False, Refusal.NOT_YOURS_TO_REVOKE),
        (Standing(LINUS, frozenset({REVIEWERS}), Refusal.GUEST), False, Refusal.GUEST),
        (Standing(LINUS, refusal=Refusal.LOOKUP_FAILED), True, Refusal.LOOKUP_FAILED),
    ],
)
async def test_who_may_revoke(
    database: Database, standing: Standing, administrator: bool, refusal: Refusal | None
) -> None:
    """Every reviewer of such calls may, whatever part they had in one, and administrators; a no is recorded."""
    grant_id = await allow(database)
    revoking = grants.revoke(
        database, grant_id, standing, (REVIEWERS,), administrator=administrator, path="page"
    )
    if refusal is None:
        assert await revoking
        return
    with pytest.raises(Refused) as caught:
        await revoking
    assert caught.value.code is refusal
    assert (await events(database, f"request:{grant_id}"))[-1] == "grant.revoke_refused"
    assert await use(database, cover(grant_id)) is not None


async def test_an_operator_revokes_from_the_command_line(database: Database) -> None:
    """Any user of the machine may, and an id that is none is reported."""
    grant_id = await allow(database)
    assert await grants.revoke_as_operator(database, grant_id, "cli:root")
    assert not await grants.revoke_as_operator(database, grant_id, "cli:root")
    with pytest.raises(NotFound):
        await grants.revoke_as_operator(database, uuid4(), "cli:root")


@pytest.mark.parametrize(
    ("standings", "because"),
    [
        ([Standing(GRACE)], "somebody who gave it is no longer a reviewer"),
        ([Standing(GRACE, refusal=Refusal.DEACTIVATED)], "somebody who gave it is no longer a reviewer"),
        ([Standing(GRACE, refusal=Refusal.LOOKUP_FAILED)], None),
        ([], None),
    ],
)
async def test_who_gave_it_must_be_a_reviewer_now(
    database: Database, standings: list[Standing], because: str | None
) -> None:
    """One who is none any more ends the grant; one of whom that is not known makes people be asked."""
    grant_id = await allow(database)
    assert await use(database, cover(grant_id, standings=standings)) is None
    assert await ended(database, grant_id) == because
    assert (await use(database, cover(grant_id)) is None) is (because is not None)


async def test_who_gave_it_must_be_able_to_approve_this_very_call(database: Database) -> None:
    """A grant covers neither its givers' own requests nor those that they instructed, and still covers others'."""
    grant_id = await allow(database)
    run_id, (call_id,) = await start(database, requester=GRACE)
    for requester in (GRACE, ADA):
        covering = cover(grant_id, to_cover(requester=requester))
        assert await use(database, covering, (run_id, call_id)) is None
    assert await use(database, cover(grant_id)) is not None


async def test_limits_of_an_earlier_policy_allow_no_grant(database: Database) -> None:
    """A grant is proposed under the policy in force, or not at all."""
    asked = await ask(database, granting_rule())
    await approve(database, asked, GRACE)
    judged_by = await policies.epoch_in_force(database)
    await policies.apply(database, load("[defaults]\n", filename="checkpoints.toml"), by="cli:root")
    with pytest.raises(GrantRefused, match="policy has just changed"):
        await grants.propose(database, grant_proposal(asked), LIMITS, {}, REVIEWS, policy_epoch=judged_by)


async def test_every_one_of_a_quorum_counts(database: Database) -> None:
    """A grant needs as many votes as its calls do, and later every one of those who gave them."""
    terms = granting_rule(approvals_required=2)
    asked = await ask(database, terms)
    await approve(database, asked, GRACE)
    grant_id = await propose(database, grant_proposal(asked))
    proposed = await asked_as(database, grant_id, asked.call_id, asked.run_id)
    both = [reviewer(GRACE), reviewer(LINUS)]
    covering = cover(grant_id, to_cover(terms), both)
    assert await use(database, covering) is None
    await approve(database, proposed, GRACE)
    assert await use(database, covering) is None
    await alone.vote(database, ballot(proposed, both[1], others=both))
    assert await use(database, covering) is not None
    for standings in ([both[0]], [both[0], Standing(LINUS, refusal=Refusal.LOOKUP_FAILED)]):
        assert await use(database, cover(grant_id, to_cover(terms), standings)) is None


@pytest.mark.parametrize("how", ["rejected", "edited"])
async def test_a_no_in_the_run_stands_against_the_tool(database: Database, how: str) -> None:
    """After a rejection or an edit people are asked again in that run, also about a slightly other call."""
    grant_id = await allow(database)
    run_id, (first, second) = await start(database, calls=2)
    opened = await requests.open(database, question(run_id, first, granting_rule(allow_edit=True)))
    asked = await asked_as(database, opened.request_id, first, run_id)
    if how == "rejected":
        await alone.vote(database, ballot(asked, reviewer(LINUS), "reject"))
    else:
        action = Action("process_refund", "1", {"order_id": 5})
        await requests.edit(
            database,
            Edit(asked.request_id, 1, reviewer(LINUS), action, {"price": 1}, None, "slack_edit"),
        )
    assert await use(database, cover(grant_id, to_cover(order=9)), (run_id, second)) is None
    child, (below,) = await start(database, parent_run_id=run_id)
    assert await use(database, cover(grant_id), (child, below)) is None
    assert await use(database, cover(grant_id)) is not None


async def test_a_no_below_stands_against_the_whole_family(database: Database) -> None:
    """What people rejected in a child run is asked about above and beside it; a no to another tool changes nothing."""
    grant_id = await allow(database)
    run_id, (above,) = await start(database)
    child, (rejected,) = await start(database, parent_run_id=run_id)
    sibling, (beside,) = await start(database, parent_run_id=run_id)
    opened = await requests.open(database, question(child, rejected, granting_rule()))
    asked = await asked_as(database, opened.request_id, rejected, child)
    await alone.vote(database, ballot(asked, reviewer(LINUS), "reject"))
    for call in ((run_id, above), (sibling, beside)):
        assert await use(database, cover(grant_id), call) is None
    other, (first, second) = await start(database, calls=2)
    elsewhere = replace(
        question(other, first, granting_rule()), action=Action("close_order", "1", {"order_id": 0})
    )
    asked = await asked_as(database, (await requests.open(database, elsewhere)).request_id, first, other)
    await alone.vote(database, ballot(asked, reviewer(LINUS), "reject"))
    assert await use(database, cover(grant_id), (other, second)) is not None


async def test_a_call_that_repeats_an_expired_one_is_not_covered(database: Database) -> None:
    """Who asks again after nobody answered asks people."""
    grant_id = await allow(database)
    asked = await ask(database, granting_rule())
    await write(
        database, "UPDATE approval_request SET expires_at = clock_timestamp() WHERE status = 'waiting'"
    )
    await requests.expire_due(database)
    again = await requests.ask_again(database, asked.request_id, reviewer(ADA))
    assert await use(database, cover(grant_id), (asked.run_id, again)) is None


async def test_a_limit_without_room_asks_whatever_is_granted(database: Database) -> None:
    """A limit bounds what runs without a person, under a grant too; nothing is written, and less of it still fits."""
    grant_id = await allow(database)
    limit = Limit("refunds", "process_refund", "args.amount", "all", timedelta(days=1), Decimal(10))
    run_id, (call_id,) = await start(database)
    for amount, begins in ((11, False), (10, True)):
        terms = ClaimTerms("w", idempotent=False, uses=(Use(limit, "all", Decimal(amount)),))
        claimed = await grants.claim(database, CallToClaim(call_id, run_id, None, terms), cover(grant_id))
        assert (claimed is not None) is begins
        assert await column(database, USED, id=grant_id) == [int(begins)]


async def test_what_a_program_may_do_in_advance_counts_in_limits(database: Database) -> None:
    """It takes room, as what runs by itself does, and is asked about when there is none."""
    grant_id, asked = await allow(database), await key_call(database)
    limit = Limit("refunds", "process_refund", "args.amount", "all", timedelta(days=1), Decimal(10))
    for amount, may in ((11, False), (10, True)):
        taking = replace(asked, uses=(Use(limit, "all", Decimal(amount)),))
        assert await grants.use_by_program(database, taking, cover(grant_id)) is may
        assert await column(database, USED, id=grant_id) == [int(may)]
    assert await column(database, "SELECT amount FROM limit_use WHERE settled") == [Decimal(10)]


async def test_a_use_of_a_program_is_judged_by_the_policy_in_force(database: Database) -> None:
    """What an earlier policy let a reviewer allow is judged by the one of now first."""
    grant_id, asked = await allow(database), await key_call(database)
    await policies.apply(database, load("[defaults]\n", filename="checkpoints.toml"), by="cli:root")
    with pytest.raises(OutdatedPolicy):
        await grants.use_by_program(database, asked, cover(grant_id))
    assert await grants.use_by_program(database, asked, cover(grant_id), policy_epoch=1)


@pytest.mark.parametrize("held", ["limit", "concurrency", "switch"])
async def test_a_use_waits_for_what_changes_its_verdict(
    database: Database, owner: psycopg.Connection[Any], held: str
) -> None:
    """The last unit of a limit that is being taken, and a policy that is being applied, are seen by the claim."""
    grant_id = await allow(database)
    limit = Limit("refunds", "process_refund", "count", "all", timedelta(days=1), Decimal(1))
    last = Use(limit, "all", Decimal(1))
    run_id, (call_id,) = await start(database)
    alone_at_a_time = (ConcurrencyLimit("refunds", "refunds", 1),)
    terms = ClaimTerms("w", idempotent=False, uses=(last,), concurrency=alone_at_a_time)
    member = CallToClaim(call_id, run_id, None, terms)
    async with database.transaction() as tx:
        if held == "limit":
            await limits.lock(tx, uuid4(), [last])
            limits.add_settled(tx, uuid4(), [last])
        elif held == "concurrency":
            await fetch(tx, concurrency.TAKE, **concurrency.parameters(alone_at_a_time))
        else:
            await stored_pause.lock_switch(tx)
            stored_policies.insert(tx, 1, "[defaults]", b"d" * 32, "cli:root", None, datetime.now(UTC))
        claiming = asyncio.create_task(grants.claim(database, member, cover(grant_id)))
        await blocked(owner, 1)
    if held == "switch":
        with pytest.raises(OutdatedPolicy):
            await claiming
    else:
        assert (await claiming is None) is (held == "limit")
    assert await column(database, USED, id=grant_id) == [int(held == "concurrency")]


async def test_a_call_that_people_are_asked_about_is_never_covered(database: Database) -> None:
    """A question that was put is answered by people."""
    grant_id = await allow(database)
    asked = await ask(database, granting_rule())
    assert await use(database, cover(grant_id), (asked.run_id, asked.call_id)) is None


async def test_a_call_is_one_use(database: Database) -> None:
    """A second worker gets nothing; after a lost one, a tool that may be repeated continues under the same use."""
    grant_id = await allow(database)
    run_id, (call_id,) = await start(database)
    assert await use(database, cover(grant_id), (run_id, call_id), idempotent=True) is not None
    assert await use(database, cover(grant_id), (run_id, call_id), worker="other") is None
    await write(database, "UPDATE execution SET lease_until = clock_timestamp() - interval '1 s'")
    await calls.rescue(database)
    again = await use(database, cover(grant_id), (run_id, call_id), worker="other")
    assert again is not None
    assert again.attempt == 2
    assert await column(database, USED, id=grant_id) == [1]


async def test_what_is_judged_again_after_its_use_is_asked_about(database: Database) -> None:
    """A call that began under a grant and is new again, as one without room in a limit is, is no use of it twice."""
    grant_id = await allow(database)
    run_id, (call_id,) = await start(database)
    await use(database, cover(grant_id), (run_id, call_id), idempotent=True)
    await write(database, "UPDATE execution SET lease_until = clock_timestamp() - interval '1 s'")
    await calls.rescue(database)
    await write(database, "UPDATE tool_call SET state = 'new' WHERE id = :id AND state = 'ready'", id=call_id)
    assert await use(database, cover(grant_id), (run_id, call_id)) is None


async def test_a_lost_attempt_does_not_go_on_under_a_grant_that_has_ended(database: Database) -> None:
    """The further attempt is judged as the first one was."""
    grant_id = await allow(database)
    run_id, (call_id,) = await start(database)
    await use(database, cover(grant_id), (run_id, call_id), idempotent=True)
    await write(database, "UPDATE execution SET lease_until = clock_timestamp() - interval '1 s'")
    await calls.rescue(database)
    await grants.revoke_as_operator(database, grant_id, "cli:root")
    assert await use(database, cover(grant_id), (run_id, call_id)) is None


async def test_a_further_attempt_is_one_at_the_same_call_under_the_same_grant(database: Database) -> None:
    """Not at another action, not under another grant, and not where the first one was no use."""
    first, other = await allow(database), await allow(database)
    run_id, (call_id,) = await start(database)
    await use(database, cover(first), (run_id, call_id), idempotent=True)
    plain_run, (plain,) = await start(database)
    assert await runs.pass_call(database, plain, to_cover().action)
    assert await alone.claim(database, plain, worker="w", idempotent=True) is not None
    await write(database, "UPDATE execution SET lease_until = clock_timestamp() - interval '1 s'")
    assert await calls.rescue(database) == 2
    assert await use(database, cover(first, to_cover(order=9)), (run_id, call_id)) is None
    assert await use(database, cover(other), (run_id, call_id)) is None
    assert await use(database, cover(first), (plain_run, plain)) is None
    assert await use(database, cover(first), (run_id, call_id)) is not None


async def test_a_retry_is_no_use(database: Database) -> None:
    """Who started the run settles its doubt, and that is nobody's consent to a second effect."""
    grant_id = await allow(database)
    claim = await use(database, cover(grant_id))
    assert claim is not None
    await alone.report(database, claim, Outcome(ExecutionStatus.IN_DOUBT, "gone"))
    await requests.settle(database, claim.execution_id, reviewer(ADA), "retry")
    [state] = await column(database, "SELECT state::text FROM tool_call WHERE id = :id", id=claim.call_id)
    assert state == "ready"
    assert claim.run_id is not None
    assert await use(database, cover(grant_id), (claim.run_id, claim.call_id)) is None


async def test_nothing_is_covered_while_its_agent_is_paused(database: Database) -> None:
    """A pause that ended no grant stops its uses nevertheless."""
    grant_id = await allow(database)
    run_id, (call_id,) = await start(database)
    await write(database, "INSERT INTO pause (scope, by) VALUES ('refunds', 'cli:root')")
    assert await use(database, cover(grant_id), (run_id, call_id)) is None
    assert not await grants.use_by_program(database, await key_call(database), cover(grant_id))


async def test_the_database_counts(database: Database) -> None:
    """Rows that are written past the use cases cannot overdraw a grant, bring it back, or change what it allows."""
    grant_id = await allow(database, max_uses=1)
    insert = "INSERT INTO grant_use (key, grant_id, n, amount, digest, content) VALUES (:key, :id, 1, :sum, 'd', '')"
    with pytest.raises(DBAPIError, match="sum_within"):
        await write(database, insert, key="one", id=grant_id, sum=5000)
    await write(database, insert, key="one", id=grant_id, sum=1)
    with pytest.raises(DBAPIError, match="uses_within"):
        await write(database, insert, key="two", id=grant_id, sum=1)
    for change in ("uses = 0", "max_uses = 9", "until = until + interval '1 day'", "tool = 'other'"):
        with pytest.raises(DBAPIError, match="only counts its uses"):
            await write(database, f"UPDATE approval_grant SET {change}")
    await grants.revoke_as_operator(database, grant_id, "cli:root")
    with pytest.raises(DBAPIError, match="only counts its uses"):
        await write(
            database, "UPDATE approval_grant SET ended_at = NULL, ended_by = NULL, ended_because = NULL"
        )
    with pytest.raises(DBAPIError, match="not live"):
        await write(database, insert, key="three", id=grant_id, sum=0)


async def key_call(database: Database, name: str = "r-1", content: bytes = b"c" * 32) -> ProgramCall:
    if not await column(database, "SELECT id FROM api_key"):
        await api_keys.create(
            database, "agency", frozenset({Scope.REQUEST}), by="cli:root", owner=Person(TEAM, "U0OWNER")
        )
    [key_id] = await column(database, "SELECT id FROM api_key")
    return ProgramCall("key:agency", name, content, key_id, "agency")


async def test_a_programs_question_is_one_use(database: Database) -> None:
    """The same question again is answered the same and counted once; another one of that name is refused."""
    grant_id = await allow(database)
    asked = await key_call(database)
    for _ in range(2):
        assert await grants.use_by_program(database, asked, cover(grant_id))
    assert await column(database, USED, id=grant_id) == [1]
    assert (await events(database, "key:agency"))[-1] == "grant.used"
    with pytest.raises(Conflict):
        await grants.use_by_program(database, await key_call(database, content=b"d" * 32), cover(grant_id))


async def test_a_program_is_bounded_as_a_run_is(database: Database) -> None:
    """No use beyond the last, none of its owner's or requester's grant, none for what people are asked or rejected."""
    grant_id = await allow(database, max_uses=1)
    assert await grants.use_by_program(database, await key_call(database), cover(grant_id))
    assert not await grants.use_by_program(database, await key_call(database, "r-2"), cover(grant_id))
    own = await allow(database, by=(Person(TEAM, "U0OWNER"),))
    standing = reviewer(Person(TEAM, "U0OWNER"))
    assert not await grants.use_by_program(
        database, await key_call(database, "r-3"), cover(own, standings=[standing])
    )
    fresh = await allow(database)
    mine = cover(fresh, to_cover(requester=GRACE))
    assert not await grants.use_by_program(database, await key_call(database, "r-3"), mine)
    asked = await ask_as_program(database)
    assert not await grants.use_by_program(database, await key_call(database, "r-asked"), cover(fresh))
    await alone.vote(database, ballot(asked, reviewer(LINUS), "reject"))
    same = to_cover(order=0)
    assert not await grants.use_by_program(database, await key_call(database, "r-4"), cover(fresh, same))
    assert await grants.use_by_program(database, await key_call(database, "r-5"), cover(fresh))


async def test_what_people_edited_is_asked_about_again(database: Database) -> None:
    """The action that a program was not let do as it asked for is covered no more, and others are."""
    grant_id = await allow(database)
    asked = await ask_as_program(database, allow_edit=True)
    action = Action("process_refund", "1", {"order_id": 5})
    await requests.edit(
        database,
        Edit(asked.request_id, 1, reviewer(LINUS), action, {"price": 1}, None, "slack_edit"),
    )
    same, other = cover(grant_id, to_cover(order=0)), cover(grant_id, to_cover(order=1))
    assert not await grants.use_by_program(database, await key_call(database), same)
    assert await grants.use_by_program(database, await key_call(database), other)


async def ask_as_program(database: Database, **terms: Any) -> Asked:
    """A question of the key about order 0."""
    named = {"principal": "key:agency", "client_id": "r-asked", "content": b"a" * 32}
    request_id = (
        await requests.open(database, programs_question(granting_rule(**terms), **named))
    ).request_id
    return await asked_as(database, request_id, request_id, request_id)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lasts": timedelta(days=7, seconds=1)}, "at most 168 hours"),
        ({"lasts": timedelta(0)}, "at most 168 hours"),
        ({"max_uses": 101}, "1 to 100 times"),
        ({"max_uses": 0}, "1 to 100 times"),
        ({"max_sum": None}, "needs a number"),
        ({"sum_of": "facts.weight"}, "cannot be added up"),
        ({"max_sum": Decimal(-1)}, "negative"),
        ({"arguments": {"order_id": Fits("[0-9]+")}}, "args.order_id cannot be freed"),
        ({"arguments": {"order_id": OneOf((0, 1))}}, "args.order_id cannot be freed"),
        ({"arguments": {"order_id": Exact(5)}}, "args.order_id cannot be freed"),
        ({"arguments": {"order_id": Between(Decimal(1), Decimal(2))}}, "would not be covered"),
        ({"arguments": {}}, "would not be covered"),
        ({"facts": None}, "would not be covered"),
        ({"by": LINUS}, "whose approval of this request counts"),
    ],
)
async def test_what_cannot_be_allowed_is_refused_not_clamped(
    database: Database, changes: dict[str, Any], words: str
) -> None:
    """Beyond the maximum, and what the checkpoint does not let them free, there is no grant at all."""
    asked = await ask(database, granting_rule())
    await approve(database, asked, GRACE)
    with pytest.raises(GrantRefused, match=words):
        await propose(database, grant_proposal(asked, **changes))
    assert await column(database, "SELECT count(*) FROM approval_grant") == [0]


@pytest.mark.parametrize(
    ("terms", "limits", "words"),
    [
        (granting_rule(risk=Risk.CRITICAL), LIMITS, "critical"),
        (granting_rule().model_copy(update={"allow_grants": False}), LIMITS, "allows no grants"),
        (granting_rule(), None, "policy allows none"),
        (granting_rule(), GrantLimits(timedelta(hours=1), 100), "at most 1 hours"),
    ],
)
async def test_where_no_grant_can_be_given(
    database: Database, terms: Any, limits: GrantLimits | None, words: str
) -> None:
    """Critical risk, a checkpoint without permission, and a policy without `[grants]` allow none."""
    asked = await ask(database, terms)
    await approve(database, asked, GRACE)
    with pytest.raises(GrantRefused, match=words):
        await propose(database, grant_proposal(asked), limits)


async def test_an_edited_or_undecided_call_is_no_model(database: Database) -> None:
    """What a reviewer made of a call, and a call that they have not approved, cannot be allowed in advance."""
    asked = await ask(database, granting_rule(allow_edit=True))
    with pytest.raises(GrantRefused, match="approval of this request counts"):
        await propose(database, grant_proposal(asked))
    action = Action("process_refund", "1", {"order_id": 5})
    changed = Edit(asked.request_id, 1, reviewer(LINUS), action, {"price": 1}, None, "slack_edit")
    await requests.edit(database, changed)
    await alone.vote(database, ballot(asked, reviewer(GRACE), revision=2))
    with pytest.raises(GrantRefused, match="edited"):
        await propose(database, grant_proposal(asked))


@pytest.mark.parametrize("how", ["rejected", "void"])
async def test_an_approval_that_does_not_stand_is_no_model(database: Database, how: str) -> None:
    """Somebody else rejected the call in the end, or what was shown has changed since."""
    terms = granting_rule(approvals_required=2)
    asked = await ask(database, terms)
    await approve(database, asked, GRACE)
    verdict = "reject" if how == "rejected" else "approve"
    await alone.vote(database, ballot(asked, reviewer(LINUS), verdict, others=[reviewer(GRACE)]))
    if how == "void":
        anew = question(asked.run_id, asked.call_id, terms, client_id="anew")
        await requests.void_and_ask(database, asked.call_id, asked.request_id, anew)
    with pytest.raises(GrantRefused, match="approval of this request counts"):
        await propose(database, grant_proposal(asked))


async def test_a_requester_cannot_give_a_grant(database: Database) -> None:
    """A person who may not approve the call may not approve similar calls either."""
    asked = await ask(database, granting_rule())
    await approve(database, asked, GRACE)
    grant_id = await propose(database, grant_proposal(asked))
    proposed = await asked_as(database, grant_id, asked.call_id, asked.run_id)
    with pytest.raises(Refused) as caught:
        await alone.vote(database, ballot(proposed, reviewer(ADA)))
    assert caught.value.code is Refusal.SELF_REVIEW


async def test_the_same_wish_is_one_grant(database: Database) -> None:
    """A form that is sent twice makes one grant; another grant_proposal from the same card is refused."""
    asked = await ask(database, granting_rule())
    await approve(database, asked, GRACE)
    first = await propose(database, grant_proposal(asked))
    assert await propose(database, grant_proposal(asked)) == first
    lasts = "SELECT until - created_at BETWEEN interval '7 h 59 min' AND interval '8 h' FROM approval_grant"
    assert await column(database, lasts) == [True]
    with pytest.raises(GrantRefused, match="already"):
        await propose(database, grant_proposal(asked, max_uses=2))


async def test_grants_of_a_tool_are_few(database: Database) -> None:
    """At most fifty are live for one agent and tool; one that is revoked makes room."""
    asked = await ask(database, granting_rule())
    await approve(database, asked, GRACE)
    last = await propose(database, grant_proposal(asked))
    await write(
        database,
        "WITH many AS MATERIALIZED (SELECT gen_random_uuid() AS id, n FROM generate_series(2, :most) AS n),"
        " proposed AS (INSERT INTO tool_call SELECT (jsonb_populate_record(c, jsonb_build_object("
        "    'id', many.id, 'client_id', 'copy ' || n))).* FROM tool_call AS c, many WHERE c.id = :id)"
        " INSERT INTO approval_request SELECT (jsonb_populate_record(r, jsonb_build_object("
        "    'id', many.id, 'call_id', many.id, 'client_id', 'copy ' || n))).*"
        " FROM approval_request AS r, many WHERE r.id = :id",
        id=last,
        most=MAX_LIVE,
    )
    await write(
        database,
        "INSERT INTO approval_grant (request_id, agent, tool, checkpoint_id, agents, until, max_uses)"
        " SELECT r.id, g.agent, g.tool, g.checkpoint_id, g.agents, g.until, g.max_uses"
        " FROM approval_grant AS g, approval_request AS r WHERE r.source = 'allow_similar' AND r.id <> g.request_id",
    )
    with pytest.raises(GrantRefused, match="50 live"):
        await allow(database)
    await grants.revoke_as_operator(database, last, "cli:root")
    await allow(database)


async def test_only_live_grants_are_counted_and_by_one_at_a_time(
    database: Database, owner: psycopg.Connection[Any]
) -> None:
    """Grants that are over, ended or used up make room; concurrent additions wait for the count."""
    asked = await ask(database, granting_rule())
    await approve(database, asked, GRACE)
    live = await propose(database, grant_proposal(asked))
    for change in (
        {"until": "2026-01-01"},
        {"uses": 3},
        {"ended_at": "2026-01-01", "ended_by": "cli", "ended_because": "revoked"},
    ):
        other = str(uuid4())
        tables = {"tool_call": "id", "approval_request": "id", "approval_grant": "request_id"}
        for table, key in tables.items():
            await write(
                database,
                f"INSERT INTO {table} SELECT (jsonb_populate_record(t, CAST(:changes AS jsonb))).*"
                f" FROM {table} AS t WHERE {key} = :live",
                changes=json.dumps({key: other, "call_id": other, "client_id": other, **change}),
                live=live,
            )
    async with database.transaction() as tx:
        assert await stored_grants.lock_count(tx, "refunds", "process_refund") == 1
        proposing = asyncio.create_task(allow(database))
        await blocked(owner, 1)
    await proposing


async def test_the_command_line_lists_and_revokes(database: Database, signoff: Any) -> None:
    """Operators see what holds and end it; what has ended is not listed."""
    grant_id = await allow(database)
    listed = await asyncio.to_thread(signoff, "grants", "--json")
    assert json.loads(listed.said)["id"] == str(grant_id)
    assert "revoked" in (await asyncio.to_thread(signoff, "grants", "revoke", str(grant_id))).said
    assert "there are no grants" in (await asyncio.to_thread(signoff, "grants")).said


@pytest.mark.parametrize(
    ("change", "because"),
    [
        ('\n[[checkpoint]]\ncheckpoint_id = "other"\naction_pattern = "other"\n', None),
        ('risk = "high"\n', "its checkpoint was changed"),
        ("# the same, said otherwise\n", None),
    ],
)
async def test_a_new_policy_ends_the_grants_of_what_it_changes(
    database: Database, change: str, because: str | None
) -> None:
    """Any change of its checkpoint, and back again, leaves a grant dead; other changes leave it alone."""
    text = (
        '[grants]\nmax_for = "1d"\nmax_uses = 5\n'
        '[[checkpoint]]\ncheckpoint_id = "refunds"\naction_pattern = "process_refund"\nallow_grants = true\n'
    )
    before = load(text, filename="checkpoints.toml")
    grant_id = await allow(database)
    await policies.apply(database, before, by="cli:root")
    await policies.apply(database, load(text + change, filename="checkpoints.toml"), by="cli:root")
    await policies.apply(database, before, by="cli:root")
    assert await ended(database, grant_id) == because


async def test_going_back_to_an_earlier_policy_ends_grants_too(database: Database) -> None:
    """What was allowed under a checkpoint as it was is not allowed under the one of before."""
    text = '[[checkpoint]]\ncheckpoint_id = "refunds"\naction_pattern = "process_refund"\n'
    first, second = (load(text + more, filename="checkpoints.toml") for more in ("", 'risk = "high"\n'))
    await policies.apply(database, first, by="cli:root")
    await policies.apply(database, second, by="cli:root")
    grant_id = await allow(database)
    now, wanted = await policies.earlier(database)
    await policies.restore(database, now, wanted, wanted.digest, by="cli:root")
    assert await ended(database, grant_id) == "its checkpoint was changed"


async def test_a_policy_without_grants_ends_all(database: Database) -> None:
    """Nobody may give any, so each existing grant ends."""
    text = '[[checkpoint]]\ncheckpoint_id = "refunds"\naction_pattern = "process_refund"\n'
    grants_too = f'[grants]\nmax_for = "1d"\nmax_uses = 5\n{text}'
    grant_id = await allow(database)
    await policies.apply(database, load(grants_too, filename="checkpoints.toml"), by="cli:root")
    await policies.apply(database, load(text, filename="checkpoints.toml"), by="cli:root")
    assert await ended(database, grant_id) is not None


async def test_an_approved_grant_does_not_lapse(database: Database) -> None:
    """Nobody claims it, so `execute_within` says nothing about it."""
    grant_id = await allow(database)
    assert await column(database, "SELECT lapse_at FROM tool_call WHERE id = :id", id=grant_id) == [None]
