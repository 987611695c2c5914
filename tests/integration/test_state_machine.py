"""The real use cases on PostgreSQL against a small reference: whatever is done in whatever order, they agree.

A failure prints the steps; `make test SEED=…` repeats them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
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
    rule,
    run_state_machine_as_test,
)

from agent.database.pools import Database
from agent.domain.checkpoints import load
from agent.domain.errors import GrantRefused, LeaseLost, OutdatedPolicy, Refusal, Refused
from agent.domain.groups import Batch, gathered_in
from agent.domain.limits import Limit, LimitState, Use
from agent.domain.people import Standing
from agent.domain.request import ExecutionStatus
from agent.domain.rules import Rule
from agent.domain.run import AnswerKind, CallAnswer, ProposedCall, RunLease, Turn
from agent.usecases import calls as call_usecases
from agent.usecases import grants, limits, pause, requests, runs
from agent.usecases import policy as policies
from agent.usecases.calls import CallToClaim, Claim, ClaimTerms, Outcome, lost_attempts
from agent.usecases.requests import VoteOutcome
from agent.usecases.runs import NewRun, turns
from signoff.errors import Conflict
from signoff.values import Action, Person
from tests.integration import alone, asking, granting, invariants
from tests.integration.asking import (
    ADA,
    REVIEWERS,
    TEAM,
    Asked,
    asked_as,
    ballot,
    programs_question,
    question,
    rows,
    write,
)
from tests.integration.on_record import put_terms_on_record
from tests.integration.reference import NOTHING, Attempt, Call, Grant, Program, Request, Run
from tests.stress import rounds
from tests.stress.budget import full

PEOPLE = ("U0ADA", "U0GRACE", "U0LINUS", "U0EVE")
REQUESTER = PEOPLE[0]
ANY = st.integers(0, 1000)
WHO = st.sampled_from(PEOPLE)
STALE = ANY.map(lambda n: n % 9 == 8)
LOST = st.just(set[str]()) | st.just(set[str]()) | st.sets(WHO, max_size=2)
NEW, READY = (
    (lambda self, s=state: any(c.state == s for c in self.calls.values())) for state in ("new", "ready")
)
WAITING = lambda self: any(r.status == "waiting" for r in self.requests.values())  # noqa: E731
LIMIT = Limit("refunds", "process_refund", "args.amount", "all", timedelta(days=1), Decimal("1.0"))
AMOUNT = st.sampled_from([Decimal("0.1"), Decimal("0.3"), Decimal("0.7"), Decimal("1.1")])
ACTION = Action("process_refund", "1", {"order_id": 0})
STATE = """
SELECT 'run', id, status::text, awaiting_calls, inputs, heard, lease_until IS NOT NULL FROM agent_run
UNION ALL
SELECT 'call', id, state::text, ask_no, blocking::int, 0, repeats IS NOT NULL FROM tool_call WHERE executor <> 'none'
UNION ALL
SELECT 'request', id, status::text, 0, 0, 0, voided_at IS NOT NULL FROM approval_request WHERE source <> 'allow_similar'
UNION ALL
SELECT 'attempt', e.id, e.status::text, 0, 0, 0, s.execution_id IS NOT NULL
FROM execution AS e LEFT JOIN settlement AS s ON s.execution_id = e.id
UNION ALL
SELECT 'grant', request_id, '', uses, 0, 0, ended_at IS NOT NULL FROM approval_grant
"""


@dataclass(frozen=True)
class Act:
    """Something that somebody does, when it makes sense, with arguments by chance."""

    do: Callable[..., None]
    sensible: Callable[[Any], object]
    arguments: dict[str, st.SearchStrategy[Any]]


ACTS: list[Act] = []


def action(
    sensible: Callable[[Any], object] = lambda _: True, weight: int = 1, **arguments: st.SearchStrategy[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declare an act of the machine.

    Not a Hypothesis rule of its own: Hypothesis switches most of many rules off in each example, and then hardly any
    request lives long enough to be decided, executed and settled.
    """

    def declared(do: Callable[..., None]) -> Callable[..., None]:
        ACTS.extend([Act(do, sensible, arguments)] * weight)
        return do

    return declared


def use_of(amount: Decimal) -> Use:
    return Use(LIMIT, "all", amount)


@dataclass(frozen=True)
class PolicyText:
    """A policy as far as grants of the checkpoint on refunds depend on it."""

    refunds: int
    """How many have to approve; 0: there is no such checkpoint."""
    other: bool
    grants: bool

    @property
    def source(self) -> str:
        of = {"refunds": self.refunds, "other": int(self.other)}
        tables = [
            f'[[checkpoint]]\ncheckpoint_id = "{name}"\naction_pattern = "x"\napprovals_required = {needed}'
            for name, needed in of.items()
            if needed
        ]
        bounds = ['[grants]\nmax_for = "7d"\nmax_uses = 100'] if self.grants else []
        return "\n".join(['[defaults]\napprovers = ["S0FINANCE"]', *bounds, *tables]) + "\n"

    def ends_grants(self, after: PolicyText) -> bool:
        return not after.grants or self.refunds not in (0, after.refunds)


def standing(who: str, lost: set[str]) -> Standing:
    return Standing(Person(TEAM, who), frozenset() if who in lost else frozenset({REVIEWERS}))


class Machine(RuleBasedStateMachine):
    """Every act is done to both; after it, rows and reference must be equal and every invariant hold."""

    def __init__(self, postgres: Any) -> None:
        super().__init__()
        self.postgres = postgres
        self.name = postgres.create("signoff_template")
        self.loop = asyncio.new_event_loop()
        self.db = Database(postgres.url(self.name), pool_size=2, decision_pool_size=1)
        self.runs: dict[UUID, Run] = {}
        self.calls: dict[UUID, Call] = {}
        self.program = Program()
        self.names: dict[str, UUID] = {}
        """The program's, of its calls."""
        self.requests: dict[UUID, Request] = {}
        self.attempts: dict[UUID, Attempt] = {}
        self.asked: dict[UUID, Asked] = {}
        self.claims: dict[UUID, Claim] = {}
        self.leases: list[tuple[Run, RunLease, int]] = []
        self.decided: dict[UUID, tuple[Any, ...]] = {}
        self.grants: dict[UUID, Grant] = {}
        self.epoch = 0
        self.policy: PolicyText | None = None
        self.said = 0

    def teardown(self) -> None:
        self.loop.run_until_complete(self.db.close())
        self.loop.close()
        self.postgres.drop(self.name)
        rounds.done()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What it returns, or the refusal that it raises."""
        try:
            return self.loop.run_until_complete(work)
        except (Refused, GrantRefused, OutdatedPolicy, Conflict, LeaseLost) as refusal:
            return refusal

    def sql(self, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.do(rows(self.db, query, **parameters))
        return found

    def pick(self, among: dict[UUID, Any], n: int, fits: Callable[[Any], object]) -> Any:
        """Mostly one that fits; now and then any, because what must be refused is tried too."""
        fitting = [key for key, each in among.items() if fits(each) or n % 7 == 6]
        return (fitting or list(among))[n // 7 % len(fitting or among)]

    def id_of(self, among: dict[UUID, Any], it: Any) -> UUID:
        return next(key for key, each in among.items() if each is it)

    @rule(data=st.data())
    def something_happens(self, data: st.DataObject) -> None:
        act = data.draw(st.sampled_from([each for each in ACTS if each.sensible(self)]), "act")
        act.do(self, **{name: data.draw(strategy, name) for name, strategy in act.arguments.items()})

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
            *(("grant", i, "", g.uses, 0, 0, g.ended) for i, g in self.grants.items()),
        }
        found = set(self.sql(STATE))
        assert found == expected, (
            f"rows {sorted(found - expected, key=str)}, reference {sorted(expected - found, key=str)}"
        )
        assert self.do(invariants.broken(self.db)) == []
        taken = [call.takes for call in self.calls.values()]
        expected_use = (sum(used for used, _ in taken), sum(waits for _, waits in taken))
        [in_use] = self.do(limits.by_subject(self.db, [LIMIT])) or [None]
        assert (in_use.used, in_use.waiting) == expected_use if in_use else expected_use == (0, 0)
        decided = {
            row[0]: row for row in self.sql("SELECT request_id, outcome::text, decided_at FROM decision")
        }
        assert decided.items() >= self.decided.items(), "a decision changed"
        self.decided = decided

    # --- runs ----------------------------------------------------------------------------------------------

    @initialize(calls=st.integers(1, 3), nested=st.booleans())
    def begins(self, calls: int, nested: bool) -> None:
        self.starts(None)
        if nested:
            self.starts(next(iter(self.runs)))
        run_id = list(self.runs)[-1]
        self.is_leased_by(run_id, "w")
        self.turns(self.leases[-1], calls)

    def starts(self, parent: UUID | None) -> None:
        new = NewRun("refunds", "1", "refund", "slack", ADA, "slack", TEAM, "C0AGENTS", parent_run_id=parent)
        self.runs[self.do(runs.start(self.db, new)).run_id] = Run(self.runs[parent] if parent else None)

    @action(n=ANY, again=st.booleans())
    def hears(self, n: int, again: bool) -> None:
        run_id = self.pick(self.runs, n, lambda r: r.inputs == r.heard)
        self.said += not again
        fresh = (
            self.do(runs.add_message(self.db, run_id, "and?", ADA, f"said-{self.said}"))
            if self.said
            else None
        )
        if fresh:
            self.runs[run_id].hear()
        assert again or fresh

    @action(lambda self: any(run.inputs > run.heard for run in self.runs.values()), n=ANY)
    def is_leased(self, n: int) -> None:
        self.is_leased_by(self.pick(self.runs, n, lambda r: r.inputs > r.heard), f"w{n}")

    def is_leased_by(self, run_id: UUID, worker: str) -> None:
        leased = self.do(alone.lease(self.db, run_id, worker))
        epoch = self.runs[run_id].lease()
        assert (leased.lease.epoch if leased else None) == epoch
        if leased:
            assert leased.tools_on == (self.runs[run_id].awaiting == 0)
            self.leases.append((self.runs[run_id], leased.lease, leased.heard))

    @action(lambda self: any(run.alive for run in self.runs.values()))
    def workers_fall_silent(self) -> None:
        self.do(
            write(
                self.db, "UPDATE agent_run SET lease_until = clock_timestamp() WHERE lease_until IS NOT NULL"
            )
        )
        for run in self.runs.values():
            run.alive = False

    @action(lambda self: any(run.held for run in self.runs.values()), n=ANY, calls=st.integers(0, 3))
    def makes_its_turn(self, n: int, calls: int) -> None:
        held = [each for each in self.leases if each[0].held or n % 7 == 6]
        self.turns(held[-1 - n // 7 % len(held)], calls)

    @action(
        lambda self: any(run.inputs > run.heard and not run.alive for run in self.runs.values()),
        n=ANY,
        calls=st.integers(0, 3),
    )
    def goes_on(self, n: int, calls: int) -> None:
        before = len(self.leases)
        self.is_leased(n)
        if len(self.leases) > before:
            self.turns(self.leases[-1], calls)

    def turns(self, leased: tuple[Run, RunLease, int], calls: int) -> None:
        run, lease, heard = leased
        proposed = tuple(ProposedCall(f"c{i}", "process_refund", '{"order_id":0}') for i in range(calls))
        lost = self.do(alone.record_turn(self.db, lease, Turn("words", proposed, 1, heard)))
        before = len(run.calls)
        assert (lost is None) == run.turn(lease.epoch, heard, calls)
        for call in run.calls[before:]:
            self.find_new(lease.run_id, call)

    def find_new(self, run_id: UUID, call: Call) -> None:
        ids = self.sql("SELECT id FROM tool_call WHERE run_id = :id ORDER BY turn, index", id=run_id)
        self.calls[next(row[0] for row in ids if row[0] not in self.calls)] = call

    @action(lambda self: any(run.held for run in self.runs.values()), n=ANY, for_good=st.booleans())
    def model_fails(self, n: int, for_good: bool) -> None:
        run, lease, _ = self.leases[-1 - n % min(2, len(self.leases))]
        lost = self.do(runs.record_model_failure(self.db, lease, "no model", None if for_good else 0.0))
        assert (lost is None) == run.fail(lease.epoch, for_good=for_good)

    # --- calls and requests --------------------------------------------------------------------------------

    @action(
        lambda self: any(c.state == "new" for c in self.calls.values()),
        n=ANY,
        needed=st.integers(1, 2),
        stop=st.booleans(),
        background=st.booleans(),
        amount=AMOUNT,
        stale=STALE,
        batched=st.booleans(),
    )
    def is_asked(
        self, n: int, needed: int, stop: bool, background: bool, amount: Decimal, stale: bool, batched: bool
    ) -> None:
        call_id = self.pick(self.calls, n, lambda c: c.state == "new")
        call, state = self.calls[call_id], (LimitState(use_of(amount), NOTHING, NOTHING),)
        judged_by = self.judged_by(stale)
        gathered = self.gathered(needed, batched)
        new = self.question(
            call_id,
            needed,
            stop,
            background=background,
            limits=state,
            policy_epoch=judged_by,
            gathered_in=gathered,
        )
        opened = self.do(requests.open(self.db, new))
        if call.state == "new" and not call.unneeded and judged_by != self.epoch:
            assert isinstance(opened, OutdatedPolicy)
        elif call.state == "new" and not call.unneeded:
            assert opened.created
            call.amount = amount
            call.ask(needed=needed, stop=stop, background=background)
            self.know(opened.request_id, call_id)
        elif call.requests:
            assert (self.requests[opened.request_id], opened.created) == (call.request, False)
            other = self.question(call_id, needed, stop, order=8)
            assert isinstance(self.do(requests.open(self.db, other)), Conflict)
        else:
            assert isinstance(opened, Conflict)

    @action(n=ANY, needed=st.integers(1, 2), amount=AMOUNT, stale=STALE, batched=st.booleans())
    def program_asks(self, n: int, needed: int, amount: Decimal, stale: bool, batched: bool) -> None:
        """Under one of four names, so that some questions are repeated, in a batch or alone."""
        name, state = f"p{n % 4}", (LimitState(use_of(amount), NOTHING, NOTHING),)
        judged_by = self.judged_by(stale)
        gathered = self.gathered(needed, batched)
        terms = self.terms(needed, False)
        new = programs_question(
            terms, client_id=name, limits=state, policy_epoch=judged_by, gathered_in=gathered
        )
        opened = self.do(requests.open(self.db, new))
        if name in self.names:
            assert (self.requests[opened.request_id], opened.created) == (
                self.calls[self.names[name]].request,
                False,
            )
        elif judged_by != self.epoch:
            assert isinstance(opened, OutdatedPolicy)
        else:
            assert opened.created
            call_id = self.names[name] = opened.request_id
            call = self.calls[call_id] = Call(self.program, blocking=False, amount=amount)
            self.program.calls.append(call)
            call.ask(needed=needed, stop=False, background=False)
            self.know(opened.request_id, call_id)

    def of_runs(self, among: dict[UUID, Any]) -> dict[UUID, Any]:
        """The calls, or the requests, that runs proposed."""
        return {key: each for key, each in among.items() if not getattr(each, "call", each).of_program}

    def question(
        self, call_id: UUID, needed: int = 1, stop: bool = False, **changes: Any
    ) -> requests.NewRequest:
        call = self.calls[call_id]
        if call.of_program:
            name = next(name for name, known in self.names.items() if known == call_id)
            order = changes.pop("order", 0)
            known: dict[str, Any] = {"client_id": name, "call_id": call_id, "policy_epoch": self.epoch}
            given = {**known, "action": Action("process_refund", "1", {"order_id": order}), **changes}
            return programs_question(self.terms(needed, stop), **given)
        name = f"{call_id}:{len(call.requests)}"
        fields: dict[str, Any] = {"client_id": name, "policy_epoch": self.epoch, **changes}
        return question(self.id_of(self.runs, call.run), call_id, self.terms(needed, stop), **fields)

    def terms(self, needed: int, stop: bool) -> Rule:
        return asking.rule(
            approvals_required=needed, on_reject="stop" if stop else "tell_model", allow_grants=True
        )

    def gathered(self, needed: int, batched: bool) -> str | None:
        """In the machine's only batch; two approvals have a card of their own."""
        return gathered_in(Batch("b", 4), self.terms(needed, False), None, 4) if batched else None

    def know(self, request_id: UUID, call_id: UUID) -> None:
        call = self.calls[call_id]
        self.requests[request_id] = call.request
        run_id = call_id if call.of_program else self.id_of(self.runs, call.run)
        self.asked[request_id] = self.do(asked_as(self.db, request_id, call_id, run_id))

    @action(NEW, n=ANY, refuse=st.booleans(), stale=STALE)
    def is_judged(self, n: int, refuse: bool, stale: bool) -> None:
        call_id = self.pick(self.calls, n, lambda c: c.state == "new")
        call, judged_by = self.calls[call_id], self.judged_by(stale)
        new = call.state == "new"
        passed = partial(runs.pass_call, self.db, call_id, ACTION, policy_epoch=judged_by)
        if not refuse and new and not call.unneeded and judged_by != self.epoch:
            assert isinstance(self.do(passed()), OutdatedPolicy)
        elif refuse:
            assert self.do(runs.refuse_call(self.db, call_id, CallAnswer(AnswerKind.DENIED, "no"))) == new
            if new:
                call.state, call.kind = "refused", "denied"
        else:
            assert self.do(passed()) == (new and not call.unneeded)
            if new and not call.unneeded:
                call.state = "ready"

    @action(
        lambda self: self.requests,
        n=ANY,
        who=WHO,
        verdict=st.sampled_from(("approve", "approve", "reject")),
        lost=LOST,
        forged=ANY,
    )
    def votes(self, n: int, who: str, verdict: str, lost: set[str], forged: int) -> None:
        request_id = self.pick(self.requests, n, lambda r: r.status == "waiting")
        paper = ballot(
            self.asked[request_id], standing(who, lost), verdict, others=[standing(p, lost) for p in PEOPLE]
        )
        if forged % 20 == 0:
            nonce = "x" * 22
            paper = ballot(Asked(request_id, request_id, request_id, nonce), standing(who, lost), verdict)
            assert self.do(alone.vote(self.db, paper)).code is Refusal.UNKNOWN_REQUEST
            return
        voted = self.do(alone.vote(self.db, paper))
        expected = self.requests[request_id].vote(who, verdict, REQUESTER, lost)
        assert (voted.status if isinstance(voted, VoteOutcome) else voted.code).value == expected

    @action(WAITING, n=ANY)
    def is_withdrawn(self, n: int) -> None:
        request_id = self.pick(self.requests, n, lambda r: r.status == "waiting")
        request = self.requests[request_id]
        assert self.do(requests.withdraw(self.db, request_id, ADA, None)) == (request.status == "waiting")
        if request.status == "waiting":
            request.end("cancelled")

    @action(WAITING, n=ANY)
    def falls_due(self, n: int) -> None:
        request_id = self.pick(self.requests, n, lambda r: r.status == "waiting")
        query = (
            "UPDATE approval_request SET expires_at = clock_timestamp() WHERE id = :id AND status = 'waiting'"
        )
        self.do(write(self.db, query, id=request_id))
        self.do(put_terms_on_record(self.db))
        self.requests[request_id].overdue = True

    @action(lambda self: any(r.status == "waiting" and r.overdue for r in self.requests.values()))
    def sweeps_what_is_due(self) -> None:
        due = [r for r in self.requests.values() if r.status == "waiting" and r.overdue]
        assert self.do(requests.expire_due(self.db, batch_size=2)) == len(due)
        for request in due:
            request.end("expired")

    @action(lambda self: any(c.state == "refused" for c in self.calls.values()), n=ANY)
    def is_answered(self, n: int) -> None:
        call_id = self.pick(self.of_runs(self.calls), n, lambda c: c.state == "refused")
        call = self.calls[call_id]
        stopped = self.do(runs.answer_call(self.db, call_id))
        over = call.run.over
        if call.state == "refused":
            call.answer(call.kind or "")
        assert (stopped is not None) == (call.run.over and not over)

    @action(
        lambda self: any(r.status == "expired" for r in self.of_runs(self.requests).values()), n=ANY, who=WHO
    )
    def asks_again(self, n: int, who: str) -> None:
        request_id = self.pick(self.of_runs(self.requests), n, lambda r: r.status == "expired")
        call = self.requests[request_id].call
        result = self.do(requests.ask_again(self.db, request_id, standing(who, set())))
        if who != REQUESTER:
            assert isinstance(result, Refused)
            return
        if self.requests[request_id].status != "expired":
            assert isinstance(result, Conflict)
            return
        known = next((i for i, c in self.calls.items() if c.repeats is call), None)
        if known is None:
            self.calls[result] = Call(call.run, blocking=False, repeats=call)
            call.run.calls.append(self.calls[result])
        else:
            assert result == known

    # --- attempts ------------------------------------------------------------------------------------------

    @action(
        lambda self: any(c.state == "ready" for c in self.calls.values()),
        n=ANY,
        idempotent=st.booleans(),
        amount=AMOUNT,
        stale=STALE,
        forged=ANY,
    )
    def is_claimed(self, n: int, idempotent: bool, amount: Decimal, stale: bool, forged: int) -> None:
        """By a worker or the program, each what is its own; now and then what is the other's."""
        call_id = self.pick(self.calls, n, lambda c: c.state == "ready")
        call, uses, judged_by = self.calls[call_id], (use_of(amount),), self.judged_by(stale)
        theirs = forged % 5 == 4
        claimed = alone.claim(
            self.db,
            call_id,
            worker=f"w{n}",
            idempotent=idempotent,
            uses=uses,
            policy_epoch=judged_by,
            token=b"h" * 32 if call.of_program is not theirs else None,
        )
        claim = self.do(claimed)
        if judged_by != self.epoch:
            assert isinstance(claim, OutdatedPolicy)
            return
        call.run.unpark()
        if theirs:
            assert claim is None
            return
        if call.state == "ready" and not call.requests and not self.has_room(call, amount):
            assert claim is None
            call.state = "new"  # judged again
            return
        assert (claim is not None) == (call.state == "ready")
        if claim:
            self.begins_attempt(claim, call, idempotent, amount)

    def begins_attempt(self, claim: Claim, call: Call, idempotent: bool, amount: Decimal) -> None:
        call.state, call.amount = "claimed", amount
        self.claims[claim.execution_id] = claim
        self.attempts[claim.execution_id] = Attempt(call, idempotent)
        call.attempts.append(self.attempts[claim.execution_id])

    def has_room(self, call: Call, amount: Decimal) -> bool:
        """Whether the limit lets a call run that nobody has approved: what it has taken already takes no more."""
        others = sum(sum(each.takes) for each in self.calls.values() if each is not call)
        return others + amount <= LIMIT.max or (call.takes[0] > 0 and call.takes[0] >= amount)

    @action()
    def ended_uses_are_settled(self) -> None:
        self.do(limits.settle_ended(self.db))
        open_ones = "SELECT 1 FROM limit_use_open WHERE standing NOT IN ('used', 'waiting')"
        assert self.sql(open_ones) == []

    @action(
        lambda self: self.claims,
        n=ANY,
        status=st.sampled_from(("succeeded", "succeeded", "failed", "in_doubt")),
    )
    def is_reported(self, n: int, status: str) -> None:
        attempt_id = self.pick(self.attempts, n, lambda a: a.status == "claimed")
        attempt, text = self.attempts[attempt_id], f"said {n % 3}"
        on_time = self.do(
            alone.report(self.db, self.claims[attempt_id], Outcome(ExecutionStatus(status), text))
        )
        assert on_time == attempt.report(status, text)

    @action(lambda self: any(a.status == "claimed" for a in self.attempts.values()), n=ANY)
    def worker_dies(self, n: int) -> None:
        attempt_id = self.pick(self.attempts, n, lambda a: a.status == "claimed")
        self.do(
            write(
                self.db, "UPDATE execution SET lease_until = clock_timestamp() WHERE id = :id", id=attempt_id
            )
        )
        self.attempts[attempt_id].lost = True

    @action(lambda self: any(a.lost and a.status == "claimed" for a in self.attempts.values()))
    def rescues(self) -> None:
        lost = [a for a in self.attempts.values() if a.lost and a.status == "claimed"]
        assert self.do(call_usecases.rescue(self.db)) == len(lost)
        for attempt in lost:
            attempt.rescue()

    @action(
        lambda self: any(a.status == "in_doubt" and not a.settled for a in self.attempts.values()),
        n=ANY,
        who=WHO,
        retry=st.booleans(),
        lost=LOST,
    )
    def is_settled(self, n: int, who: str, retry: bool, lost: set[str]) -> None:
        attempt_id = self.pick(self.attempts, n, lambda a: a.status == "in_doubt" and not a.settled)
        attempt = self.attempts[attempt_id]
        verdict: Any = "retry" if retry else "done"
        others = [standing(each, lost) for each in attempt.wanted]
        result = self.do(requests.settle(self.db, attempt_id, standing(who, lost), verdict, others=others))
        if attempt.status != "in_doubt" or attempt.settled:
            assert isinstance(result, Conflict)
        elif (who in lost or who == REQUESTER) if attempt.call.requests else who != REQUESTER:
            assert isinstance(result, Refused)
        elif retry and (needed := attempt.missing(who, lost)):
            assert result == needed
            attempt.wanted.add(who)
        else:
            assert result == 0
            attempt.settled = True
            if retry:
                attempt.call.state, attempt.retried = "ready", True
            else:
                attempt.call.answer("done_by_person")

    @action(
        lambda self: any(c.state == "ready" and c.requests for c in self.calls.values()), n=ANY, amount=AMOUNT
    )
    def is_asked_anew(self, n: int, amount: Decimal) -> None:
        call_id = self.pick(self.calls, n, lambda c: c.state == "ready" and c.requests)
        call, state = self.calls[call_id], (LimitState(use_of(amount), NOTHING, NOTHING),)
        request_id = self.id_of(self.requests, call.request) if call.requests else call_id
        anew = self.question(call_id, limits=state)
        opened = self.do(requests.void_and_ask(self.db, call_id, request_id, anew))
        if call.state != "ready" or not call.requests or call.unneeded:
            assert isinstance(opened, Conflict)
            return
        call.request.voided = True
        call.amount = amount
        call.ask(needed=1, stop=False, background=False)
        self.know(opened.request_id, call_id)

    @action(lambda self: any(c.state == "ready" for c in self.program.calls), n=ANY)
    def lapses(self, n: int) -> None:
        """The program has not begun in time."""
        theirs = {key: call for key, call in self.calls.items() if call.of_program}
        call_id = self.pick(theirs, n, lambda c: c.state == "ready")
        query = "UPDATE tool_call SET lapse_at = clock_timestamp() WHERE id = :id AND state = 'ready'"
        self.do(write(self.db, query, id=call_id))
        was_ready = self.calls[call_id].state == "ready"
        assert self.do(requests.lapse_due(self.db)) == was_ready
        if was_ready:
            self.calls[call_id].answer("error")

    # --- policy and grants ---------------------------------------------------------------------------------

    def judged_by(self, stale: bool) -> int:
        """The policy that a worker judges by: that in force, or the one before."""
        return self.epoch - 1 if stale and self.epoch else self.epoch

    @action(refunds=st.integers(0, 2), other=st.booleans(), may_grant=ANY)
    def policy_is_applied(self, refunds: int, other: bool, may_grant: int) -> None:
        text = PolicyText(refunds, other, may_grant % 9 != 8)
        policy = load(text.source, filename="checkpoints.toml")
        stands = self.do(policies.apply(self.db, policy, by="cli:root"))
        if text != self.policy:
            self.epoch += 1
            ends = self.policy is not None and self.policy.ends_grants(text)
            for grant in self.grants.values():
                grant.ended |= ends
        self.policy = text
        assert stands.epoch == self.epoch

    @action(
        lambda self: any("approve" in r.votes.values() for r in self.of_runs(self.requests).values()),
        n=ANY,
        who=WHO,
        uses=st.integers(1, 2),
        over=ANY,
        others=st.sets(WHO, max_size=2),
        stale=STALE,
    )
    def is_granted(self, n: int, who: str, uses: int, over: int, others: set[str], stale: bool) -> None:
        """Somebody allows calls like one that they approved, and some vote for it."""
        known_ones = self.of_runs(self.requests)
        request_id = self.pick(known_ones, n, lambda r: "approve" in r.votes.values() and not r.is_over)
        request, asked = self.requests[request_id], self.asked[request_id]
        if over % 5:
            who = next((p for p, verdict in request.votes.items() if verdict == "approve"), who)
        lasts = timedelta(milliseconds=1) if over % 7 == 0 else timedelta(days=1)
        wanted = granting.grant_proposal(
            asked, Person(TEAM, who), lasts=lasts, max_uses=uses, sum_of=None, max_sum=None
        )
        judged_by = self.judged_by(stale)
        opened = self.do(
            grants.propose(self.db, wanted, granting.LIMITS, {}, asking.REVIEWS, policy_epoch=judged_by)
        )
        known = request.granted.get(who)
        if known is not None:
            same = known.wish == (uses, lasts)
            assert self.grants[opened.request_id] is known if same else isinstance(opened, GrantRefused)
            return
        if not request.may_grant(who) or judged_by != self.epoch:
            assert isinstance(opened, GrantRefused)
            return
        given = Grant(request, uses, over=over % 7 == 0, wish=(uses, lasts))
        self.grants[opened.request_id] = request.granted[who] = given
        paper = self.do(asked_as(self.db, opened.request_id, asked.call_id, asked.run_id))
        for each in (who, *sorted(others - {who})):
            if not given.holds:
                cast = ballot(paper, standing(each, set()), others=[standing(p, set()) for p in PEOPLE])
                voted = self.do(alone.vote(self.db, cast))
                assert isinstance(voted, VoteOutcome) == (each != REQUESTER)
                given.granters |= {each} - {REQUESTER}

    @action(
        lambda self: any(g.holds for g in self.grants.values()) and NEW(self),
        weight=3,
        n=ANY,
        g=ANY,
        idempotent=st.booleans(),
        amount=AMOUNT,
        lost=LOST,
        stale=STALE,
    )
    def is_used(self, n: int, g: int, idempotent: bool, amount: Decimal, lost: set[str], stale: bool) -> None:
        """A worker begins a call under a grant, as far as that goes."""
        calls = self.of_runs(self.calls)
        call_id = self.pick(calls, n, lambda c: c.state in ("new", "ready") and not c.requests)
        grant_id = self.pick(self.grants, g, lambda each: each.holds and not each.ended)
        call, given, judged_by = self.calls[call_id], self.grants[grant_id], self.judged_by(stale)
        rule = self.terms(given.request.needed, given.request.stop)
        above = ("refunds",) if given.request.call.run.parent else ()
        covering = granting.cover(
            grant_id,
            granting.to_cover(rule, above=above),
            [standing(each, lost) for each in PEOPLE],
        )
        terms = ClaimTerms(f"w{n}", idempotent, uses=(use_of(amount),), policy_epoch=judged_by)
        member = CallToClaim(call_id, self.id_of(self.runs, call.run), None, terms)
        begun = self.do(grants.claim(self.db, member, covering))
        may_begin = self.has_room(call, amount) and call.may_begin_under(given) and given.covers(call)
        if may_begin and given.granters & lost:
            assert begun is None
            given.ended = True
        elif may_begin and judged_by != self.epoch:
            assert isinstance(begun, OutdatedPolicy)
        elif may_begin:
            given.use(call)
            call.run.unpark()
            self.begins_attempt(begun, call, idempotent, amount)
        else:
            assert begun is None

    @action(lambda self: any(not g.ended for g in self.grants.values()), n=ANY)
    def is_revoked(self, n: int) -> None:
        grant_id = self.pick(self.grants, n, lambda g: not g.ended)
        ended = self.do(grants.revoke_as_operator(self.db, grant_id, "cli:root"))
        assert ended == (not self.grants[grant_id].ended)
        self.grants[grant_id].ended = True

    @action(lambda self: any(not g.ended for g in self.grants.values()))
    def is_paused_for_a_moment(self) -> None:
        self.do(pause.pause(self.db, "refunds", by="cli:root"))
        self.do(pause.resume(self.db, "refunds", by="cli:root"))
        for grant in self.grants.values():
            grant.ended = True


@pytest.mark.parametrize(
    ("examples", "steps"),
    [(4, 50), pytest.param(full(400), 80, marks=pytest.mark.stress)],
    ids=["quick", "full"],
)
def test_the_use_cases_do_what_the_reference_says(
    postgres: Any, monkeypatch: pytest.MonkeyPatch, examples: int, steps: int
) -> None:
    """Any order of use cases leaves the rows as the reference has them, and no invariant is ever broken."""
    for room in (turns, lost_attempts):  # leases end when an act says so, not because the machine is slow
        monkeypatch.setattr(room, "LEASE_SECONDS", 3600.0)
    profile = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    machine: Any = partial(Machine, postgres)
    rounds.begin(examples)
    run_state_machine_as_test(machine, settings=profile)
