"""One policy is in force: a process that judged by another one commits nothing, and loads it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from agent.database.errors import OutcomeUnknown
from agent.database.pools import Database
from agent.domain import checkpoints
from agent.domain.api_keys import Principal
from agent.domain.audit import AuditKind
from agent.domain.errors import NotFound, OutdatedPolicy, PolicyError
from agent.domain.judgement import Judgement
from agent.domain.policy import Policy
from agent.domain.request import RequestStatus
from agent.domain.run import AnswerKind, CallAnswer, CallState, CallView
from agent.runtime.calls import advance_call
from agent.runtime.immediate_claims import process_votes
from agent.runtime.policy_in_force import PolicyInForce
from agent.runtime.services import Services
from agent.store import call_locks
from agent.store.ids import new_id
from agent.usecases import calls as call_usecases
from agent.usecases import judgements, limits, requests, runs
from agent.usecases import policy as policies
from agent.usecases.calls import claims
from agent.usecases.calls.attempts import ClaimTerms
from agent.usecases.requests import Edit
from signoff.errors import Conflict
from signoff.values import Action
from signoff_demo.sandbox.model import ScriptedCall, ScriptedTurn
from tests.commit_cutter import CommitCutter, Cut
from tests.integration import alone, invariants
from tests.integration.asking import GRACE, ask, ballot, programs_question, question, reviewer, rule, start
from tests.integration.runtime.conftest import Stage
from tests.integration.runtime.test_immediate_claims import asked, cleaner, done, slots, state, vote

Staged = Callable[..., Awaitable[Stage]]


def policy(unmatched: str, remark: str = "") -> Policy:
    """What happens to a call that no checkpoint names."""
    return checkpoints.load(
        f'# {remark}\n[defaults]\nunmatched = "{unmatched}"\n', filename="checkpoints.toml"
    )


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


async def proposed(on: Stage, number: int = 0) -> CallView:
    """A call that nobody has judged yet."""
    on.model.script(ScriptedTurn(calls=(ScriptedCall("delete", {"what": f"table {number}"}),)))
    run_id = await on.start("cleaner", "tidy up")
    (due,) = [each for each in await on.due() if each.key == run_id]
    await on._advance(due)
    (call,) = await on.calls(run_id)
    assert call.state is CallState.NEW
    return call


def worker(on: Stage, loaded: Policy, **how: Any) -> Services:
    """Another process, which has loaded this policy."""
    return replace(on.other_worker(), policies=PolicyInForce(on.db, loaded, **how))


async def put(db: Database, wanted: Policy) -> Policy:
    """Put a policy in force; returns it as a process has it that has loaded it."""
    return replace(wanted, epoch=(await policies.apply(db, wanted, by="cli:ada")).epoch)


async def test_a_worker_with_the_old_policy_loads_the_new_one_before_it_judges(stage: Staged) -> None:
    """A call that the old policy let run, and that nobody has claimed, is given up: the new one denies it."""
    on = await stage(cleaner())
    old = await put(on.db, policy("allow"))
    call, judged = await proposed(on), await proposed(on, 1)
    await runs.pass_call(on.db, judged.id, Action("delete", "1", {"what": "table 1"}), policy_epoch=old.epoch)
    late = worker(on, old)
    await put(on.db, policy("deny"))
    for each in (call, judged):
        await advance_call(late, each.id)
    assert (done, late.policy.epoch) == ([], 2)
    (answered,) = await on.calls(call.run_id)
    assert answered.answer is not None
    assert answered.answer.kind is AnswerKind.DENIED
    assert await on.sql("SELECT status::text, policy_epoch FROM execution") == [("failed", 2)]


async def test_a_claim_under_way_is_waited_for_and_the_next_one_is_refused(stage: Staged) -> None:
    """`apply` returns when the claims by the old policy have committed, and no later one is written."""
    on = await stage(cleaner())
    old = await put(on.db, policy("allow"))
    calls = [await proposed(on, number) for number in range(2)]
    for number, call in enumerate(calls):
        action = Action("delete", "1", {"what": f"table {number}"})
        await runs.pass_call(on.db, call.id, action, policy_epoch=old.epoch)
    terms = [ClaimTerms(f"worker {n}", idempotent=False, policy_epoch=old.epoch) for n in range(2)]
    async with on.db.transaction() as tx:
        locked = await call_locks.lock_ready(
            tx, [calls[0].id], [calls[0].run_id], [f"run:{calls[0].run_id}"], wait=True
        )
        applying = asyncio.create_task(put(on.db, policy("deny")))
        await on.until(lambda: waits_for_switch(on))
        assert isinstance(await claims.begin_attempt(tx, locked[calls[0].id], terms[0]), tuple)
    new = await applying
    with pytest.raises(OutdatedPolicy):
        await alone.alone(
            call_usecases.ClaimCalls(on.db),
            call_usecases.CallToClaim(calls[1].id, calls[1].run_id, None, terms[1]),
        )
    assert await on.sql("SELECT worker, policy_epoch FROM execution") == [("worker 0", old.epoch)]
    assert new.epoch == old.epoch + 1


async def waits_for_switch(on: Stage) -> bool:
    """Whether somebody waits for an advisory lock."""
    return bool(
        (await on.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"))[0][0]
    )


async def test_no_claim_by_an_old_policy_begins_after_apply_has_returned(stage: Staged) -> None:
    """Two workers claim while policies change 10 times: no attempt is younger than the return of the next `apply`."""
    on = await stage(cleaner())
    now = await put(on.db, policy("allow", "0"))
    workers = [worker(on, now) for _ in range(2)]
    calls = [await proposed(on, number) for number in range(20)]
    returned: dict[int, datetime] = {}

    async def work(services: Services, mine: list[CallView]) -> None:
        for call in mine:
            while await state(on, call) is not CallState.ANSWERED:
                with suppress(OutdatedPolicy):  # as often as policies change here, it may be one more try
                    await advance_call(services, call.id)

    async def change() -> None:
        for number in range(1, 11):
            while len(done) < number:  # noqa: ASYNC110 - calls are claimed under each of them
                await asyncio.sleep(0.005)
            epoch = (await put(on.db, policy("allow", str(number)))).epoch
            returned[epoch] = (await on.sql("SELECT clock_timestamp()"))[0][0]

    await asyncio.gather(work(workers[0], calls[::2]), work(workers[1], calls[1::2]), change())
    attempts = await on.sql("SELECT policy_epoch, started_at FROM execution")
    assert len(attempts) == len(calls) == len(done)
    assert len({epoch for epoch, _ in attempts}) > 1
    late = [each for each in attempts if each[1] > returned.get(each[0] + 1, each[1])]
    assert late == []
    assert await invariants.broken(on.db) == []


async def test_a_vote_counts_and_its_call_is_not_claimed_by_the_old_policy(stage: Staged) -> None:
    """The tool of an approved call waits for a judgement by the policy in force."""
    on = await stage(cleaner())
    call, calls = await asked(on), slots()
    await put(on.db, policy("deny"))
    assert (await vote(process_votes(on.services, calls), call)).status is RequestStatus.APPROVED
    assert (done, await state(on, call)) == ([], CallState.READY)


async def test_a_worker_that_cannot_read_the_policy_does_nothing_and_says_why(stage: Staged) -> None:
    """A version that does not know a key judges and claims nothing; what waits stays for others."""
    on = await stage(cleaner())
    old = await put(on.db, policy("allow"))
    call = await proposed(on)

    def older(source: str, name: str) -> Policy:
        raise PolicyError([f'{name}:3: [defaults]: unknown key "new"', "another"])

    services = worker(on, old, read=older)
    await put(on.db, policy("allow", "new"))
    for _ in range(2):
        with pytest.raises(OutdatedPolicy):
            await advance_call(services, call.id)
    assert services.policies.problem == (
        'the policy in force cannot be loaded by this process: policy 2:3: [defaults]: unknown key "new" (and 1 more)'
    )
    assert (done, await state(on, call)) == ([], CallState.NEW)
    await advance_call(worker(on, old), call.id)
    assert done == ["table 0"]


async def test_a_worker_reads_no_policy_but_the_one_in_force(stage: Staged) -> None:
    """While it cannot read that one, nothing here judges by the one before, and it says so once."""
    on = await stage(cleaner())
    services = worker(on, await put(on.db, policy("allow")), read=_without_remarks)
    await put(on.db, policy("allow", "new"))
    with capture_logs() as logs:
        for _ in range(2):
            with pytest.raises(OutdatedPolicy):
                await services.policies.load()
    assert [each["action"] for each in logs] == ["policy.unreadable"]
    with pytest.raises(OutdatedPolicy):
        _ = services.policy
    assert services.policies.last_loaded.epoch == 1


async def test_a_worker_goes_on_when_it_can_read_the_policy_again(stage: Staged) -> None:
    """What waited is judged by the next policy that this version knows."""
    on = await stage(cleaner())
    call, old = await proposed(on), await put(on.db, policy("allow"))
    services = worker(on, old, read=_without_remarks)
    await put(on.db, policy("allow", "new"))
    with pytest.raises(OutdatedPolicy):
        await advance_call(services, call.id)
    await put(on.db, policy("allow"))
    await services.policies.load()
    await advance_call(services, call.id)
    assert (services.policies.problem, services.policy.epoch, done) == (None, 3, ["table 0"])


def _without_remarks(source: str, name: str) -> Policy:
    """Reads as a version does to which a remark is an unknown key."""
    if "# new" in source:
        raise PolicyError([f"{name}: unknown key"])
    return checkpoints.load(source, filename=name)


async def _pass(db: Database, epoch: int) -> None:
    _, calls = await start(db)
    await runs.pass_call(db, calls[0], Action("process_refund", "1", {"order_id": 0}), policy_epoch=epoch)


async def _refuse(db: Database, epoch: int) -> None:
    _, calls = await start(db)
    await runs.refuse_call(db, calls[0], CallAnswer(AnswerKind.DENIED, "no"), policy_epoch=epoch)


async def _open(db: Database, epoch: int) -> None:
    run_id, calls = await start(db)
    await requests.open(db, question(run_id, calls[0], rule(), policy_epoch=epoch))


async def _open_of_program(db: Database, epoch: int) -> None:
    await requests.open(db, programs_question(rule(), policy_epoch=epoch))


async def _record(db: Database, epoch: int) -> None:
    principal = Principal(None, "key:ci", frozenset(), None, None)  # type: ignore[arg-type]
    judged = Judgement("run", None, "it is allowed", epoch)
    await judgements.record(
        db, principal, AuditKind.REVIEW_NOT_REQUIRED, {"request": "1"}, judged, agent="crm"
    )


async def _let_go_ahead(db: Database, epoch: int) -> None:
    principal = Principal(None, "key:ci", frozenset(), None, None)  # type: ignore[arg-type]
    judged = Judgement("run", None, "it is allowed", epoch)
    await limits.allow_use(db, principal, new_id(), (), {"request": "1"}, judged, agent="crm")


@pytest.mark.parametrize("act", [_pass, _refuse, _open, _open_of_program, _record, _let_go_ahead])
async def test_what_was_judged_by_another_policy_is_not_written(
    database: Database, act: Callable[[Database, int], Awaitable[None]]
) -> None:
    """Each judgement is compared with the policy in force in the transaction that acts on it."""
    await put(database, policy("allow"))
    await put(database, policy("deny"))
    for epoch in (1, 0):
        with pytest.raises(OutdatedPolicy):
            await act(database, epoch)
    await act(database, 2)


async def test_an_edit_and_a_question_asked_anew_are_judged_by_the_policy_in_force(
    database: Database,
) -> None:
    """An edit, and an approval that becomes void, go by no other policy either."""
    waiting = await ask(database, rule(allow_edit=True))
    action = Action("process_refund", "1", {"order_id": 5})
    edit = Edit(waiting.request_id, 1, reviewer(GRACE), action, None, None, "test", policy_epoch=0)
    approved = await ask(database)
    await alone.vote(database, ballot(approved, reviewer(GRACE)))
    await put(database, policy("allow"))
    anew = question(approved.run_id, approved.call_id, rule(), client_id="anew")
    with pytest.raises(OutdatedPolicy):
        await requests.edit(database, edit)
    with pytest.raises(OutdatedPolicy):
        await requests.void_and_ask(database, approved.call_id, approved.request_id, anew)
    await requests.edit(database, replace(edit, policy_epoch=1))
    await requests.void_and_ask(
        database, approved.call_id, approved.request_id, replace(anew, policy_epoch=1)
    )


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_apply_that_is_cut_off_is_whole_or_not_there(
    database: Database, cutter: CommitCutter, cut: Cut
) -> None:
    """When the connection is lost at COMMIT, the policy is in force with its audit event, or neither is."""
    await put(database, policy("allow"))
    async with Database(cutter.url) as db:
        cutter.cut_next(cut)
        with pytest.raises(OutcomeUnknown):
            await policies.apply(db, policy("deny"), by="cli:ada")
    now = await policies.in_force(database)
    assert now is not None
    async with database.transaction() as tx:
        events = (await tx.execute(text("SELECT detail ->> 'epoch' FROM audit_event ORDER BY seq"))).scalars()
        assert list(events) == [str(n) for n in range(1, now.epoch + 1)]
    assert now.epoch == (2 if cut == "after" else 1)
    assert (await put(database, policy("deny"))).epoch == 2


async def test_the_first_policy_is_put_once_and_a_late_way_back_changes_nothing(database: Database) -> None:
    """Of processes that start together one puts its file in force; who goes back from another policy is refused."""
    files = [policy("allow", str(number)) for number in range(4)]
    stood = await asyncio.gather(*(policies.put_first(database, each, by="cli:ada") for each in files))
    assert len({(each.epoch, each.source) for each in stood}) == 1
    first = stood[0]
    second = await policies.apply(database, policy("deny"), by="cli:ada")
    with pytest.raises(Conflict):
        await policies.restore(database, first, first, first.digest, by="cli:ada")
    again = await policies.restore(database, second, second, second.digest, by="cli:ada")
    assert (again.epoch, (await policies.put_first(database, files[0], by="cli:ada")).epoch) == (2, 2)


async def test_back_leads_to_what_was_in_force_before(database: Database) -> None:
    """Each step back goes one policy further, `--to` to any; each is a new epoch that says what it brings back."""
    for number in range(1, 4):
        await put(database, policy("allow", str(number)))

    async def back(to: int | None = None) -> tuple[int, int | None, str]:
        now, wanted = await policies.earlier(database, to)
        made = await policies.restore(database, now, wanted, wanted.digest, by="cli:ada")
        return made.epoch, made.restores, made.source[2:3]

    assert [await back(), await back()] == [(4, 2, "2"), (5, 1, "1")]
    with pytest.raises(NotFound):
        await back()
    assert await back(4) == (6, 2, "2")
    assert [each.epoch for each in await policies.history(database, 10)] == [6, 5, 4, 3, 2, 1]


async def test_looks_load_a_policy_and_processes_without_looks_watch_for_it(stage: Staged) -> None:
    """A look finds that another policy is in force until it has been looked at."""
    on = await stage(cleaner())
    now = await put(on.db, policy("allow"))
    watching = PolicyInForce(on.db, now)
    task = asyncio.create_task(watching.watch(0.01))
    await put(on.db, policy("deny"))
    await on.until(lambda: _is(watching.seen == 2))
    task.cancel()
    assert watching.policy.defaults.unmatched == "deny"


async def _is(truth: bool) -> bool:
    return truth
