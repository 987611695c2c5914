"""The real use cases on PostgreSQL against a small reference: whatever is done in whatever order, they agree.

A failure prints the steps; `make test SEED=…` repeats them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from agent import approvals, executions, runs
from agent.approvals import Voted
from agent.domain.action import Action
from agent.domain.errors import Conflict, LeaseLost, Refusal, Refused
from agent.domain.people import Person, Standing
from agent.domain.request import ExecutionStatus
from agent.domain.run import Answer, AnswerKind, ProposedCall, RunLease, Turn
from agent.executions import Claim, Outcome
from agent.runs import NewRun
from agent.store.database import Database
from tests.integration import asking, invariants
from tests.integration.asking import ADA, REVIEWERS, TEAM, Asked, asked_as, ballot, question, rows, write
from tests.integration.reference import Attempt, Call, Request, Run

PEOPLE = ("U0ADA", "U0GRACE", "U0LINUS", "U0EVE")
REQUESTER = PEOPLE[0]
ANY = st.integers(0, 1000)
WHO = st.sampled_from(PEOPLE)
LOST = st.sets(WHO, max_size=2)
ACTION = Action("process_refund", "1", {"order_id": 0})
STATE = """
SELECT 'run', id, status::text, awaiting_calls, inputs, heard, lease_until IS NOT NULL FROM agent_run
UNION ALL
SELECT 'call', id, state::text, ask_no, blocking::int, 0, repeats IS NOT NULL FROM tool_call
UNION ALL
SELECT 'request', id, status::text, 0, 0, 0, voided_at IS NOT NULL FROM approval_request
UNION ALL
SELECT 'attempt', e.id, e.status::text, 0, 0, 0, s.execution_id IS NOT NULL
FROM execution AS e LEFT JOIN settlement AS s ON s.execution_id = e.id
"""


def standing(who: str, lost: set[str]) -> Standing:
    return Standing(Person(TEAM, who), frozenset() if who in lost else frozenset({REVIEWERS}))


class Machine(RuleBasedStateMachine):
    """Every rule does one thing to both; after it, rows and reference must be equal and every invariant hold."""

    def __init__(self, postgres: Any) -> None:
        super().__init__()
        self.postgres = postgres
        self.name = postgres.create("signoff_template")
        self.loop = asyncio.new_event_loop()
        self.db = Database(postgres.url(self.name), pool_size=2, decision_pool_size=1)
        self.runs: dict[UUID, Run] = {}
        self.calls: dict[UUID, Call] = {}
        self.requests: dict[UUID, Request] = {}
        self.attempts: dict[UUID, Attempt] = {}
        self.asked: dict[UUID, Asked] = {}
        self.claims: dict[UUID, Claim] = {}
        self.leases: list[tuple[Run, RunLease, int]] = []
        self.decided: dict[UUID, tuple[Any, ...]] = {}
        self.said = 0

    def teardown(self) -> None:
        self.loop.run_until_complete(self.db.close())
        self.loop.close()
        self.postgres.drop(self.name)

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What it returns, or the refusal that it raises."""
        try:
            return self.loop.run_until_complete(work)
        except (Refused, Conflict, LeaseLost) as refusal:
            return refusal

    def sql(self, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.do(rows(self.db, query, **parameters))
        return found

    def pick(self, among: dict[UUID, Any], n: int, fits: Callable[[Any], bool] = lambda _: True) -> Any:
        """One that fits, or any when none does: what must be refused is tried too."""
        fitting = [key for key, each in among.items() if fits(each)] or list(among)
        return fitting[n % len(fitting)]

    def id_of(self, among: dict[UUID, Any], it: Any) -> UUID:
        return next(key for key, each in among.items() if each is it)

    @invariant()
    def agree(self) -> None:
        """After every step: rows and reference, the invariants, and decisions that never change."""
        expected = {
            *(("run", i, r.status, r.awaiting, r.inputs, r.heard, r.held) for i, r in self.runs.items()),
            *(
                ("call", i, c.state, len(c.requests), int(c.blocking), 0, c.repeats is not None)
                for i, c in self.calls.items()
            ),
            *(("request", i, r.status, 0, 0, 0, r.voided) for i, r in self.requests.items()),
            *(("attempt", i, a.status, 0, 0, 0, a.settled) for i, a in self.attempts.items()),
        }
        found = set(self.sql(STATE))
        assert found == expected, (
            f"rows {sorted(found - expected, key=str)}, reference {sorted(expected - found, key=str)}"
        )
        assert self.do(invariants.broken(self.db)) == []
        decided = {
            row[0]: row for row in self.sql("SELECT request_id, outcome::text, decided_at FROM decision")
        }
        assert decided.items() >= self.decided.items(), "a decision changed"
        self.decided = decided

    # --- runs ----------------------------------------------------------------------------------------------

    @initialize()
    def begins(self) -> None:
        self.starts(0)

    @precondition(lambda self: len(self.runs) < 3)
    @rule(n=ANY)
    def starts(self, n: int) -> None:
        parent = self.pick(self.runs, n) if self.runs and n % 2 else None
        new = NewRun("refunds", "1", "refund", "slack", ADA, "slack", TEAM, "C0AGENTS", parent_run_id=parent)
        self.runs[self.do(runs.start(self.db, new)).run_id] = Run(self.runs[parent] if parent else None)

    @rule(n=ANY, again=st.booleans())
    def hears(self, n: int, again: bool) -> None:
        run_id = self.pick(self.runs, n)
        self.said += not again
        fresh = self.do(runs.hear(self.db, run_id, "and?", ADA, f"said-{self.said}")) if self.said else None
        if fresh:
            self.runs[run_id].hear()
        assert again or fresh

    @rule(n=ANY)
    def is_leased(self, n: int) -> None:
        run_id = self.pick(self.runs, n, lambda r: r.inputs > r.heard)
        leased = self.do(runs.lease(self.db, run_id, f"w{n}"))
        epoch = self.runs[run_id].lease()
        assert (leased.lease.epoch if leased else None) == epoch
        if leased:
            assert leased.tools_on == (self.runs[run_id].awaiting == 0)
            self.leases.append((self.runs[run_id], leased.lease, leased.heard))

    @precondition(lambda self: any(run.alive for run in self.runs.values()))
    @rule()
    def workers_fall_silent(self) -> None:
        self.do(
            write(
                self.db, "UPDATE agent_run SET lease_until = clock_timestamp() WHERE lease_until IS NOT NULL"
            )
        )
        for run in self.runs.values():
            run.alive = False

    @precondition(lambda self: self.leases)
    @rule(n=ANY, calls=st.integers(0, 2))
    def makes_its_turn(self, n: int, calls: int) -> None:
        run, lease, heard = self.leases[-1 - n % min(2, len(self.leases))]
        proposed = tuple(ProposedCall(f"c{i}", "process_refund", '{"order_id":0}') for i in range(calls))
        lost = self.do(runs.record_turn(self.db, lease, Turn("words", proposed, 1, heard)))
        before = len(run.calls)
        assert (lost is None) == run.turn(lease.epoch, heard, calls)
        for call in run.calls[before:]:
            self.find_new(lease.run_id, call)

    def find_new(self, run_id: UUID, call: Call) -> None:
        ids = self.sql("SELECT id FROM tool_call WHERE run_id = :id ORDER BY turn, index", id=run_id)
        self.calls[next(row[0] for row in ids if row[0] not in self.calls)] = call

    @precondition(lambda self: self.leases)
    @rule(n=ANY, for_good=st.booleans())
    def model_fails(self, n: int, for_good: bool) -> None:
        run, lease, _ = self.leases[-1 - n % min(2, len(self.leases))]
        lost = self.do(runs.record_model_failure(self.db, lease, "no model", None if for_good else 0.0))
        assert (lost is None) == run.fail(lease.epoch, for_good=for_good)

    # --- calls and requests --------------------------------------------------------------------------------

    @precondition(lambda self: self.calls)
    @rule(n=ANY, needed=st.integers(1, 2), stop=st.booleans(), background=st.booleans())
    def is_asked(self, n: int, needed: int, stop: bool, background: bool) -> None:
        call_id = self.pick(self.calls, n, lambda c: c.state == "new")
        call = self.calls[call_id]
        opened = self.do(approvals.open(self.db, self.question(call_id, needed, stop, background=background)))
        if call.state == "new" and not call.in_vain:
            assert opened.created
            call.ask(needed=needed, stop=stop, background=background)
            self.know(opened.request_id, call_id)
        elif call.requests:
            assert (self.requests[opened.request_id], opened.created) == (call.request, False)
            other = self.question(call_id, needed, stop, order=8)
            assert isinstance(self.do(approvals.open(self.db, other)), Conflict)
        else:
            assert isinstance(opened, Conflict)

    def question(
        self, call_id: UUID, needed: int = 1, stop: bool = False, **changes: Any
    ) -> approvals.NewRequest:
        call = self.calls[call_id]
        terms = asking.rule(approvals_required=needed, on_reject="stop" if stop else "tell_model")
        name = f"{call_id}:{len(call.requests)}"
        return question(self.id_of(self.runs, call.run), call_id, terms, client_id=name, **changes)

    def know(self, request_id: UUID, call_id: UUID) -> None:
        call = self.calls[call_id]
        self.requests[request_id] = call.request
        run_id = self.id_of(self.runs, call.run)
        self.asked[request_id] = self.do(asked_as(self.db, request_id, call_id, run_id))

    @precondition(lambda self: self.calls)
    @rule(n=ANY, refuse=st.booleans())
    def is_judged(self, n: int, refuse: bool) -> None:
        call_id = self.pick(self.calls, n, lambda c: c.state == "new")
        call = self.calls[call_id]
        new = call.state == "new"
        if refuse:
            assert self.do(runs.refuse_call(self.db, call_id, Answer(AnswerKind.DENIED, "no"))) == new
            if new:
                call.state, call.kind = "refused", "denied"
        else:
            assert self.do(runs.pass_call(self.db, call_id, ACTION)) == (new and not call.in_vain)
            if new and not call.in_vain:
                call.state = "ready"

    @precondition(lambda self: self.requests)
    @rule(n=ANY, who=WHO, verdict=st.sampled_from(("approve", "approve", "reject")), lost=LOST, forged=ANY)
    def votes(self, n: int, who: str, verdict: str, lost: set[str], forged: int) -> None:
        request_id = self.pick(self.requests, n, lambda r: r.status == "waiting" or n % 4 == 0)
        paper = ballot(
            self.asked[request_id], standing(who, lost), verdict, others=[standing(p, lost) for p in PEOPLE]
        )
        if forged % 20 == 0:
            nonce = "x" * 22
            paper = ballot(Asked(request_id, request_id, request_id, nonce), standing(who, lost), verdict)
            assert self.do(approvals.vote(self.db, paper)).code is Refusal.UNKNOWN_REQUEST
            return
        voted = self.do(approvals.vote(self.db, paper))
        expected = self.requests[request_id].vote(who, verdict, REQUESTER, lost)
        assert (voted.status if isinstance(voted, Voted) else voted.code).value == expected

    @precondition(lambda self: self.requests)
    @rule(n=ANY)
    def is_withdrawn(self, n: int) -> None:
        request_id = self.pick(self.requests, n)
        request = self.requests[request_id]
        assert self.do(approvals.withdraw(self.db, request_id, ADA, None)) == (request.status == "waiting")
        if request.status == "waiting":
            request.end("cancelled")

    @precondition(lambda self: any(r.status == "waiting" for r in self.requests.values()))
    @rule(n=ANY)
    def falls_due(self, n: int) -> None:
        request_id = self.pick(self.requests, n, lambda r: r.status == "waiting")
        query = "UPDATE approval_request SET expires_at = clock_timestamp() WHERE id = :id"
        self.do(write(self.db, query, id=request_id))
        self.requests[request_id].overdue = True

    @rule()
    def sweeps_what_is_due(self) -> None:
        due = [r for r in self.requests.values() if r.status == "waiting" and r.overdue]
        assert self.do(approvals.expire_due(self.db, batch_size=2)) == len(due)
        for request in due:
            request.end("expired")

    @precondition(lambda self: any(c.state == "refused" for c in self.calls.values()))
    @rule(n=ANY)
    def is_answered(self, n: int) -> None:
        call_id = self.pick(self.calls, n, lambda c: c.state == "refused")
        call = self.calls[call_id]
        stopped = self.do(runs.answer_call(self.db, call_id))
        over = call.run.over
        call.answer(call.kind or "")
        assert (stopped is not None) == (call.run.over and not over)

    @precondition(lambda self: any(r.status == "expired" for r in self.requests.values()))
    @rule(n=ANY, who=WHO)
    def asks_again(self, n: int, who: str) -> None:
        request_id = self.pick(self.requests, n, lambda r: r.status == "expired")
        call = self.requests[request_id].call
        result = self.do(approvals.ask_again(self.db, request_id, standing(who, set())))
        if who != REQUESTER:
            assert isinstance(result, Refused)
            return
        known = next((i for i, c in self.calls.items() if c.repeats is call), None)
        if known is None:
            self.calls[result] = Call(call.run, blocking=False, repeats=call)
            call.run.calls.append(self.calls[result])
        else:
            assert result == known

    # --- attempts ------------------------------------------------------------------------------------------

    @precondition(lambda self: self.calls)
    @rule(n=ANY, idempotent=st.booleans())
    def is_claimed(self, n: int, idempotent: bool) -> None:
        call_id = self.pick(self.calls, n, lambda c: c.state == "ready")
        call = self.calls[call_id]
        claim = self.do(executions.claim(self.db, call_id, worker=f"w{n}", idempotent=idempotent))
        call.run.unpark()
        assert (claim is not None) == (call.state == "ready")
        if claim:
            call.state = "claimed"
            self.claims[claim.execution_id] = claim
            self.attempts[claim.execution_id] = Attempt(call, idempotent)
            call.attempts.append(self.attempts[claim.execution_id])

    @precondition(lambda self: self.claims)
    @rule(n=ANY, status=st.sampled_from(("succeeded", "succeeded", "failed", "in_doubt")))
    def is_reported(self, n: int, status: str) -> None:
        attempt_id = self.pick(self.attempts, n, lambda a: a.status == "claimed" or n % 5 == 0)
        outcome = Outcome(ExecutionStatus(status), f"said {n}")
        on_time = self.do(executions.report(self.db, self.claims[attempt_id], outcome))
        assert (
            on_time == self.attempts[attempt_id].report(status) or on_time
        )  # the same words again are one report

    @precondition(lambda self: any(a.status == "claimed" for a in self.attempts.values()))
    @rule(n=ANY)
    def worker_dies(self, n: int) -> None:
        attempt_id = self.pick(self.attempts, n, lambda a: a.status == "claimed")
        self.do(
            write(
                self.db, "UPDATE execution SET lease_until = clock_timestamp() WHERE id = :id", id=attempt_id
            )
        )
        self.attempts[attempt_id].lost = True

    @rule()
    def rescues(self) -> None:
        lost = [a for a in self.attempts.values() if a.lost and a.status == "claimed"]
        assert self.do(executions.rescue(self.db)) == len(lost)
        for attempt in lost:
            attempt.rescue()

    @precondition(lambda self: any(a.status == "in_doubt" for a in self.attempts.values()))
    @rule(n=ANY, who=WHO, retry=st.booleans(), lost=LOST)
    def is_settled(self, n: int, who: str, retry: bool, lost: set[str]) -> None:
        attempt_id = self.pick(self.attempts, n, lambda a: a.status == "in_doubt" and not a.settled)
        attempt = self.attempts[attempt_id]
        verdict: Any = "retry" if retry else "done"
        result = self.do(approvals.settle(self.db, attempt_id, standing(who, lost), verdict))
        if attempt.status != "in_doubt" or attempt.settled:
            assert isinstance(result, Conflict)
        elif (who in lost or who == REQUESTER) if attempt.call.requests else who != REQUESTER:
            assert isinstance(result, Refused)
        else:
            assert result is None
            attempt.settled = True
            if retry:
                attempt.call.state = "ready"
            else:
                attempt.call.answer("done_by_person")

    @precondition(lambda self: self.calls)
    @rule(n=ANY)
    def is_asked_anew(self, n: int) -> None:
        call_id = self.pick(self.calls, n, lambda c: c.state == "ready" and c.requests)
        call = self.calls[call_id]
        opened = self.do(executions.ask_anew(self.db, call_id, self.question(call_id)))
        if call.state != "ready" or not call.requests:
            assert isinstance(opened, Conflict)
            return
        call.request.voided = True
        call.ask(needed=1, stop=False, background=False)
        self.know(opened.request_id, call_id)

    # --- hints ---------------------------------------------------------------------------------------------

    @rule()
    def hints_are_lost(self) -> None:
        """The invariant then asks that the sweep finds everything again."""
        self.do(write(self.db, "DELETE FROM procrastinate_jobs"))

    @rule()
    def sweeps(self) -> None:
        self.do(runs.sweep(self.db))
        assert self.do(runs.sweep(self.db)) == 0, "what is hinted already is not hinted again"


@pytest.mark.parametrize(
    ("examples", "steps"), [(12, 40), pytest.param(400, 80, marks=pytest.mark.stress)], ids=["quick", "full"]
)
def test_the_use_cases_do_what_the_reference_says(postgres: Any, examples: int, steps: int) -> None:
    """Any order of use cases leaves the rows as the reference has them, and no invariant is ever broken."""
    profile = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    machine: Any = partial(Machine, postgres)
    run_state_machine_as_test(machine, settings=profile)
