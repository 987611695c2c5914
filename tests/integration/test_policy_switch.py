"""Acting on a judgement waits for a policy that is being put in force, and then uses no earlier one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest

from agent.database.pools import Database
from agent.domain.api_keys import Principal
from agent.domain.audit import AuditKind
from agent.domain.errors import OutdatedPolicy
from agent.domain.judgement import Judgement
from agent.domain.run import AnswerKind, CallAnswer
from agent.store import pause
from agent.store import policy as stored_policies
from agent.store.ids import new_id
from agent.usecases import calls as call_usecases
from agent.usecases import judgements, limits, requests, runs
from agent.usecases import policy as policies
from agent.usecases.calls.attempts import ClaimTerms
from agent.usecases.requests import Edit
from signoff.errors import Conflict
from signoff.values import Action
from tests.integration import alone
from tests.integration.asking import (
    GRACE,
    ask,
    asked_as,
    ballot,
    blocked,
    programs_question,
    question,
    reviewer,
    rule,
    start,
)
from tests.integration.runtime.test_policy_in_force import policy, put

Act = Callable[[], Awaitable[object]]
Door = Callable[[Database], Awaitable[Act]]

REFUND = Action("process_refund", "1", {"order_id": 0})
PROGRAM = Principal(None, "key:ci", frozenset(), None, None)  # type: ignore[arg-type]
JUDGED = Judgement("run", None, "it is allowed", 1)


async def _pass(db: Database) -> Act:
    _, calls = await start(db)
    return lambda: runs.pass_call(db, calls[0], REFUND, policy_epoch=1)


async def _refuse(db: Database) -> Act:
    _, calls = await start(db)
    return lambda: runs.refuse_call(db, calls[0], CallAnswer(AnswerKind.DENIED, "no"), policy_epoch=1)


async def _open(db: Database) -> Act:
    run_id, calls = await start(db)
    return lambda: requests.open(db, question(run_id, calls[0], rule(), policy_epoch=1))


async def _open_of_program(db: Database) -> Act:
    new = programs_question(rule(), policy_epoch=1)
    return lambda: requests.open(db, new)


async def _edit(db: Database) -> Act:
    waiting = await ask(db, rule(allow_edit=True), policy_epoch=1)
    action = Action("process_refund", "1", {"order_id": 5})
    edit = Edit(waiting.request_id, 1, reviewer(GRACE), action, None, None, "test", policy_epoch=1)
    return lambda: requests.edit(db, edit)


async def _ask_anew(db: Database) -> Act:
    approved = await ask(db, policy_epoch=1)
    await alone.vote(db, ballot(approved, reviewer(GRACE)))
    anew = question(approved.run_id, approved.call_id, rule(), client_id="anew", policy_epoch=1)
    return lambda: requests.void_and_ask(db, approved.call_id, approved.request_id, anew)


async def _claim(db: Database) -> Act:
    run_id, calls = await start(db)
    await runs.pass_call(db, calls[0], REFUND, policy_epoch=1)
    call = call_usecases.CallToClaim(calls[0], run_id, None, ClaimTerms("w", idempotent=True, policy_epoch=1))
    return lambda: alone.alone(call_usecases.ClaimCalls(db), call)


async def _record(db: Database) -> Act:
    detail = {"request": "1"}
    return lambda: judgements.record(db, PROGRAM, AuditKind.REVIEW_NOT_REQUIRED, detail, JUDGED, agent="crm")


async def _let_go_ahead(db: Database) -> Act:
    return lambda: limits.allow_use(db, PROGRAM, new_id(), (), {"request": "1"}, JUDGED, agent="crm")


async def _approved_for_program(db: Database) -> UUID:
    new = programs_question(rule(), policy_epoch=1, principal=PROGRAM.name)
    call_id = (await requests.open(db, new)).request_id
    await alone.vote(db, ballot(await asked_as(db, call_id, call_id, call_id), reviewer(GRACE)))
    return call_id


async def _claim_of_program(db: Database) -> Act:
    call_id = await _approved_for_program(db)
    terms = ClaimTerms(PROGRAM.name, idempotent=False, policy_epoch=1, claim_hash=b"h" * 32)
    call = call_usecases.CallToClaim(call_id, None, call_id, terms)
    return lambda: alone.alone(call_usecases.ClaimCalls(db), call)


async def _ask_program_anew(db: Database) -> Act:
    call_id = await _approved_for_program(db)
    anew = programs_question(rule(), policy_epoch=1, principal=PROGRAM.name, call_id=call_id)
    return lambda: requests.void_and_ask(db, call_id, call_id, anew)


DOORS: list[Door] = [
    _pass, _refuse, _open, _open_of_program, _edit, _ask_anew, _claim, _record, _let_go_ahead,
    _claim_of_program, _ask_program_anew,
]  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
async def test_what_acts_on_a_judgement_waits_for_the_policy_that_is_applied(
    database: Database, owner: psycopg.Connection[Any], door: Door
) -> None:
    """It neither commits beside `apply` nor reads the epoch before it: it waits, and is refused."""
    await put(database, policy("allow"))
    act = await door(database)
    async with database.transaction() as tx:
        await pause.lock_switch(tx)
        acting = asyncio.ensure_future(act())
        await blocked(owner, 1)
        stored_policies.insert(tx, 2, "# other", b"\2" * 32, "cli:ada", None, datetime.now(UTC))
    with pytest.raises(OutdatedPolicy):
        await acting


async def test_a_policy_comes_back_only_after_one_that_is_applied_meanwhile(
    database: Database, owner: psycopg.Connection[Any]
) -> None:
    """Rolling back waits for another policy that is being applied, and then changes nothing."""
    await put(database, policy("allow"))
    await put(database, policy("deny"))
    now, wanted = await policies.earlier(database)
    async with database.transaction() as tx:
        await pause.lock_switch(tx)
        back = asyncio.ensure_future(policies.restore(database, now, wanted, wanted.digest, by="cli:bob"))
        await blocked(owner, 1)
        stored_policies.insert(tx, 3, "# other", b"\2" * 32, "cli:ada", None, datetime.now(UTC))
    with pytest.raises(Conflict):
        await back
