"""Agents on a real database with a scripted model, without Slack."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from agent.database.pools import Database
from agent.database.wakeups import Wakeup, WakeupKind
from agent.domain.api_keys import Principal, Scope
from agent.domain.people import Standing
from agent.domain.policy import Policy
from agent.domain.request import Ballot, Verdict
from agent.domain.request_view import RequestView
from agent.domain.run import CallView, Message, RunView
from agent.runtime import executor
from agent.runtime.agents import Agent, Registry
from agent.runtime.calls import advance_call
from agent.runtime.executor import Executor, Look
from agent.runtime.heartbeat import Heartbeat
from agent.runtime.model import Model
from agent.runtime.model_turn import advance_run
from agent.runtime.policy_in_force import PolicyInForce
from agent.runtime.services import Services, worker_name
from agent.store import views
from agent.store.outbox import Destination
from agent.usecases import api_keys, runs
from agent.usecases.requests import VoteOutcome
from agent.usecases.runs import NewRun
from signoff.values import Person
from signoff_demo.sandbox.model import ScriptedModel
from tests.commit_cutter import CommitCutter
from tests.integration import alone

TEAM, CHANNEL = "T0TEST", "C0REVIEW"
NEVER = 3600.0
"""Seconds."""
ASKER, REVIEWER = Person(TEAM, "U0ASKER"), Person(TEAM, "U0REVIEWER")


@dataclass
class Stage:
    services: Services
    model: ScriptedModel
    _started: list[UUID] = field(default_factory=list)

    @property
    def db(self) -> Database:
        return self.services.db

    def other_worker(self) -> Services:
        """Another worker on the same database."""
        name = worker_name()
        return replace(self.services, worker=name, heartbeat=Heartbeat(self.db, name))

    def go_by(self, policy: Policy) -> None:
        """Apply this policy from now on, as after a restart."""
        self.services = replace(self.services, policies=PolicyInForce(self.db, policy))

    async def start(self, agent: str, task: str, *, parent: UUID | None = None) -> UUID:
        new = NewRun(agent, "1", task, "test", ASKER, "slack", TEAM, CHANNEL, parent_run_id=parent)
        return (await runs.start(self.db, new)).run_id

    async def play(self) -> None:
        """Do all due work, and the work that follows from it."""
        while found := await self.due():
            await asyncio.gather(*(self._advance(each) for each in found))

    async def due(self) -> list[Wakeup]:
        agents = [agent.name for agent in self.services.registry]
        return await Look(self.db, lambda: agents, policy_epoch=lambda: self.services.policies.seen).find()

    async def _advance(self, due: Wakeup) -> None:
        advance = advance_run if due.kind is WakeupKind.RUN else advance_call
        await advance(self.services, UUID(str(due.key)))

    async def go(self, agent: str, task: str) -> UUID:
        run_id = await self.start(agent, task)
        await self.play()
        return run_id

    async def run(self, run_id: UUID) -> RunView:
        async with self.db.connection() as connection:
            found = await views.run_view(connection, run_id)
        assert found is not None
        return found

    async def calls(self, run_id: UUID) -> Sequence[CallView]:
        async with self.db.connection() as connection:
            return await views.calls(connection, run_id)

    async def messages(self, run_id: UUID) -> Sequence[Message]:
        async with self.db.connection() as connection:
            return await views.messages(connection, run_id)

    async def request(self, call: CallView) -> RequestView:
        assert call.request_id is not None
        async with self.db.connection() as connection:
            found = await views.request_view(connection, call.request_id)
        assert found is not None
        return found

    async def vote(self, call: CallView, verdict: Verdict, reason: str | None = None) -> VoteOutcome:
        assert call.request_id is not None
        standing = Standing(REVIEWER, frozenset({"channel"}))
        ballot = Ballot(call.request_id, 1, verdict, standing, {REVIEWER: standing}, "test", reason)
        return await alone.vote(self.db, ballot)

    async def approve(self, call: CallView) -> None:
        await self.vote(call, Verdict.APPROVE)
        await self.play()

    async def reject(self, call: CallView, reason: str | None = None) -> None:
        await self.vote(call, Verdict.REJECT, reason)
        await self.play()

    async def sql(self, statement: str, **parameters: Any) -> list[Any]:
        async with self.db.transaction() as tx:
            result = await tx.execute(text(statement), parameters)
            return list(result.all()) if result.returns_rows else []

    async def until(self, condition: Callable[[], Awaitable[bool]], seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while not await condition():
            assert time.monotonic() < deadline, "it did not happen in time"
            await asyncio.sleep(0.02)


@pytest.fixture
async def stage(database: Database) -> AsyncIterator[Callable[..., Awaitable[Stage]]]:
    open_parts: list[Any] = []

    async def make(*agents: Agent, policy: Policy | None = None, timeout: float = 5.0) -> Stage:
        scripted = ScriptedModel()
        await scripted.start()
        model = Model("scripted", api_key="test", base_url=scripted.base_url, timeout=timeout)
        worker = worker_name()
        services = Services(
            db=database,
            policies=PolicyInForce(database, policy or Policy()),
            registry=Registry(agents),
            model=model,
            heartbeat=Heartbeat(database, worker),
            worker=worker,
            destination=lambda channel: Destination(TEAM, channel or CHANNEL),
        )
        beating = asyncio.create_task(services.heartbeat.run())
        open_parts.append((scripted, services, beating))
        return Stage(services, scripted)

    yield make
    for scripted, services, beating in open_parts:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating
        await services.user_code.stop()
        await services.model.close()
        await scripted.stop()


@pytest.fixture
async def key(database: Database) -> Principal:
    """Of a program that may ask and send facts."""
    secret = await api_keys.create(database, "shop", [Scope.REQUEST, Scope.FACTS], by="test", owner=ASKER)
    found = await api_keys.authenticate(database, secret)
    assert found is not None
    return found


@pytest.fixture
async def cutter(database_url: str, tmp_path: Path) -> AsyncIterator[CommitCutter]:
    """A connection to the test's database that can be cut at a COMMIT."""
    async with CommitCutter(database_url, tmp_path).running() as opened:
        yield opened


Run = Callable[..., Awaitable[Executor]]


@pytest.fixture
async def run() -> AsyncIterator[Run]:
    """Starts executors, which have looked once; stops them in the end."""
    async with AsyncExitStack() as stack:

        async def start(services: Services, **options: Any) -> Executor:
            started = Executor(services, lambda _: None, drain_seconds=5, **options)
            await started.start()
            stack.push_async_callback(started.stop)
            await until_alive(started)
            return started

        yield start


async def until_alive(executor: Executor) -> None:
    """Wait for its first look."""
    while not executor.alive:  # noqa: ASYNC110 - it says so nowhere
        await asyncio.sleep(0)


@pytest.fixture
def no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors look at their start, and then only on request."""
    monkeypatch.setattr(executor, "BUSY", NEVER)
    monkeypatch.setattr(executor, "IDLE", NEVER)
