"""Random actions of workers and people at any moment, as far as use cases permit."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from agent.database.pools import Database
from agent.domain.errors import LeaseLost, Refused
from agent.domain.request import ExecutionStatus
from agent.domain.run import AnswerKind, CallAnswer, ProposedCall, RunLease, Turn
from agent.usecases import calls as call_usecases
from agent.usecases import requests, runs
from agent.usecases.calls import Outcome
from signoff.errors import Conflict
from signoff.values import Action, Person
from tests.integration import alone
from tests.integration.asking import ADA, GRACE, Asked, ballot, column, question, reviewer, rows, rule, write

CROWD = [reviewer(Person(ADA.team_id, f"U{n}")) for n in range(10)]
DONE = Outcome(ExecutionStatus.SUCCEEDED, "refunded")


class Crowd:
    def __init__(self, dice: random.Random, databases: tuple[Database, ...]) -> None:
        self.dice, self.databases = dice, databases
        self.done: set[str] = set()
        self.number = itertools.count()

    def acts(self) -> dict[str, Callable[[Database], Awaitable[object]]]:
        return {
            name: getattr(self, name)
            for name in (
                "turn", "say", "judge", "vote", "vote", "withdraw", "expire", "claim", "run", "lose", "settle",
                "ask_again", "ask_anew", "answer", "beat",
            )
        }  # fmt: skip

    async def work(self, worker: int, deadline: float) -> None:
        acts = list(self.acts().items())
        while time.monotonic() < deadline:
            name, act = self.dice.choice(acts)
            with suppress(Refused, Conflict, LeaseLost):
                if await act(self.databases[worker % 2]):
                    self.done.add(name)

    async def any(self, db: Database, sql: str) -> Any:
        found = await column(db, f"{sql} ORDER BY random() LIMIT 1")
        return found[0] if found else None

    async def turn(self, db: Database) -> object:
        run_id = await self.any(db, "SELECT id FROM agent_run WHERE inputs > heard")
        leased = await alone.lease(db, run_id, f"w{next(self.number)}") if run_id else None
        if leased is None:
            return None
        if self.dice.random() < 0.05:
            await runs.record_model_failure(db, leased.lease, "no model", None)
            return True
        calls = tuple(ProposedCall(f"c{n}", "process_refund", "{}") for n in range(self.dice.randrange(3)))
        await alone.record_turn(db, leased.lease, Turn("words", calls, 1, leased.heard))
        return True

    async def say(self, db: Database) -> object:
        run_id = await self.any(db, "SELECT id FROM agent_run")
        return await runs.add_message(db, run_id, "and?", ADA, f"{run_id}-{self.dice.randrange(1000)}")

    async def judge(self, db: Database) -> object:
        call_id = await self.any(db, "SELECT id FROM tool_call WHERE state = 'new'")
        if call_id is None:
            return None
        kind = self.dice.randrange(6)
        if kind == 0:
            return await runs.pass_call(db, call_id, Action("process_refund", "1", {"order_id": 0}))
        if kind == 1:
            return await runs.refuse_call(db, call_id, CallAnswer(AnswerKind.DENIED, "no"))
        [run_id] = await column(db, "SELECT run_id FROM tool_call WHERE id = :id", id=call_id)
        terms = rule(on_reject="stop" if kind == 2 else "tell_model", approvals_required=1 + kind % 2)
        return await requests.open(db, question(run_id, call_id, terms, background=kind == 3))

    async def vote(self, db: Database) -> object:
        found = await rows(
            db,
            "SELECT r.id, r.call_id, r.run_id, p.nonce FROM approval_request AS r JOIN card_place AS p"
            " ON p.request_id = r.id ORDER BY r.status, random() LIMIT 1",
        )
        if not found:
            return None
        verdict = self.dice.choice(("approve", "approve", "reject"))
        return await alone.vote(db, ballot(Asked(*found[0]), self.dice.choice(CROWD), verdict, others=CROWD))

    async def withdraw(self, db: Database) -> object:
        request_id = await self.any(db, "SELECT id FROM approval_request WHERE status = 'waiting'")
        return request_id and await requests.withdraw(db, request_id, ADA, None)

    async def expire(self, db: Database) -> object:
        request_id = await self.any(db, "SELECT id FROM approval_request WHERE status = 'waiting'")
        await write(
            db,
            "UPDATE approval_request SET expires_at = clock_timestamp() WHERE id = :id AND status = 'waiting'",
            id=request_id,
        )
        return await requests.expire_due(db)

    async def claim(self, db: Database) -> object:
        call_id = await self.any(db, "SELECT id FROM tool_call WHERE state IN ('ready', 'asked', 'claimed')")
        worker, idempotent = f"w{next(self.number)}", self.dice.random() < 0.5
        return call_id and await alone.claim(db, call_id, worker=worker, idempotent=idempotent)

    async def run(self, db: Database) -> object:
        call_id = await self.any(db, "SELECT id FROM tool_call WHERE state = 'ready'")
        if call_id is None:
            return None
        claim = await alone.claim(db, call_id, worker=f"w{next(self.number)}", idempotent=True)
        return claim and await alone.report(db, claim, DONE)

    async def lose(self, db: Database) -> object:
        found = await self.any(db, "SELECT id FROM execution WHERE status = 'claimed'")
        await write(db, "UPDATE execution SET lease_until = clock_timestamp() WHERE id = :id", id=found)
        return await call_usecases.rescue(db)

    async def settle(self, db: Database) -> object:
        found = await self.any(
            db,
            "SELECT e.id FROM execution AS e JOIN tool_call AS c ON c.id = e.call_id"
            " WHERE c.state = 'in_doubt' AND e.status = 'in_doubt'",
        )
        if found:
            who = reviewer(self.dice.choice((ADA, GRACE)))
            await requests.settle(db, found, who, self.dice.choice(("retry", "done")))
        return found

    async def ask_again(self, db: Database) -> object:
        found = await self.any(db, "SELECT id FROM approval_request WHERE status = 'expired'")
        return found and await requests.ask_again(db, found, reviewer(ADA))

    async def ask_anew(self, db: Database) -> object:
        found = await rows(
            db,
            "SELECT c.id, c.run_id, c.ask_no, r.id AS request_id FROM tool_call AS c JOIN approval_request AS r"
            " ON r.call_id = c.id AND r.ask_no = c.ask_no WHERE c.state = 'ready' ORDER BY random() LIMIT 1",
        )
        if not found:
            return None
        call_id, run_id, ask_no, request_id = found[0]
        anew = question(run_id, call_id, rule(), client_id=f"{call_id}:{ask_no + 1}")
        return await requests.void_and_ask(db, call_id, request_id, anew)

    async def answer(self, db: Database) -> object:
        call_id = await self.any(db, "SELECT id FROM tool_call WHERE state = 'refused'")
        if call_id:
            await runs.answer_call(db, call_id)
        return call_id

    async def beat(self, db: Database) -> object:
        leases = await rows(db, "SELECT id, lease_epoch, 'w' FROM agent_run")
        attempts = await column(db, "SELECT id FROM execution WHERE status = 'claimed'")
        await call_usecases.renew_leases(db, "w0", attempts, [RunLease(*each) for each in leases])
        return True
