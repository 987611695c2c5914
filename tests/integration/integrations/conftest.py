"""A running Signoff and a person who decides, for agents of other frameworks: real HTTP, real processes."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import pytest

from agent.domain.api_keys import Scope
from agent.domain.people import Standing
from agent.usecases import api_keys, requests
from agent.usecases import calls as call_usecases
from agent.usecases.requests import Edit
from signoff.values import Action
from tests.integration.asking import rows
from tests.integration.web.conftest import ADA, GRACE, Program, Street, agents, settings, site, until  # noqa: F401
from tests.warm_python import warm

__all__ = ["ADA", "GRACE", "POLICY", "ROOT", "Desk", "until"]

ROOT = Path(__file__).parents[3]

POLICY = """
[defaults]
channel = "C0REVIEW"
approvers = ["S0FINANCE"]
allow_edit = true
editor_may_approve = true
adviser_may_approve = true

[[checkpoint]]
checkpoint_id = "refunds"
action_pattern = "process_refund"
when = "args.price > 1000.0"
description_template = "Refund ${args.price} for order {args.order_id}"
risk = "medium"

[[checkpoint]]
checkpoint_id = "deletions"
action_pattern = "delete_*"
description_template = "Delete {args.count} records from {args.table_name}"

[[checkpoint]]
checkpoint_id = "reads"
action_pattern = "read_*"
when = "has(args.secret)"
"""


@dataclass
class Desk:
    """The agents' `key` is Ada's."""

    site: Street
    key: str
    grace: Program
    processes: list[Process] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    """Requests that `asked` has found: of two that are opened at once either may be written first."""

    @property
    def url(self) -> str:
        return self.site.url

    @property
    def environment(self) -> dict[str, str]:
        """Without tracing."""
        variables = {"SIGNOFF_URL": self.url, "SIGNOFF_KEY": self.key, "PYTHONPATH": str(ROOT)}
        return {**os.environ, **variables, "LANGSMITH_TRACING": "false", "OPENAI_AGENTS_DISABLE_TRACING": "1"}

    async def asked(self, number: int = 1) -> str:
        """Wait for the n-th request; return its id."""
        found = await until(lambda: self._opened(number), 60)
        return str(found[number - 1])

    async def decide(self, request: str, decision: str = "approved", **more: Any) -> None:
        await self.grace.decides(request, decision, **more)

    async def click(self, action: str = "signoff:approve", number: int = 0) -> None:
        house = self.site.house
        answer = await house.slack.person(GRACE.user_id).click(await house.card(number), action)
        assert answer.error is None, answer.error

    async def edit(self, request: str, arguments: Mapping[str, Any], **more: Any) -> None:
        [(tool,)] = await rows(
            self.site.db,
            "SELECT tool FROM request_revision WHERE request_id::text = :id LIMIT 1",
            id=request,
        )
        standing = Standing(GRACE, frozenset({"S0FINANCE"}))
        action = Action(tool, "external", dict(arguments))
        epoch = self.site.service._services.policies.seen
        edit = Edit(UUID(request), 1, standing, action, None, None, "page", policy_epoch=epoch)
        assert (await requests.edit(self.site.db, edit)).changed
        await self.decide(request, revision=2, **more)

    async def expire(self) -> None:
        await self.site.house.make_overdue()

    async def settle(self, verdict: Literal["retry", "done"]) -> None:
        sql = "UPDATE execution SET lease_until = clock_timestamp() - interval '1 s' WHERE status = 'claimed'"
        await self.site.write(sql + " RETURNING id")
        await call_usecases.rescue(self.site.db)
        [(execution,)] = await rows(self.site.db, "SELECT id FROM execution WHERE status = 'in_doubt'")
        standing = Standing(GRACE, frozenset({"S0FINANCE"}))
        await requests.settle(self.site.db, execution, standing, verdict)

    async def statuses(self) -> list[str]:
        """Oldest first."""
        sql = "SELECT status::text FROM approval_request ORDER BY id"
        return [status for (status,) in await rows(self.site.db, sql)]

    async def executions(self) -> list[str]:
        """Oldest first."""
        return [
            each for (each,) in await rows(self.site.db, "SELECT status::text FROM execution ORDER BY id")
        ]

    async def run(self, script: Path, *arguments: str, **environment: str) -> Process:
        """A program with its output on a pipe; `kill()` is kill -9."""
        process = await asyncio.create_subprocess_exec(
            warm(),
            str(script),
            *arguments,
            env={**self.environment, **environment},
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
        )
        self.processes.append(process)
        return process

    async def _opened(self, number: int) -> list[Any]:
        found = await rows(self.site.db, "SELECT id::text FROM approval_request ORDER BY id")
        self.seen += [each for (each,) in found if each not in self.seen]
        return self.seen if len(self.seen) >= number else []


@pytest.fixture
def policy() -> str:
    """The checkpoints file; a module may override it."""
    return POLICY


@pytest.fixture
async def actors(site: Street, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:  # noqa: F811
    """The service, a key that may ask, and Grace; programs are killed at the end of the test."""
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    monkeypatch.setenv("AGNO_TELEMETRY", "false")
    key = await api_keys.create(site.db, "agent", [Scope.REQUEST], by="test", owner=ADA)
    opened = Desk(site, key, await site.reviewer())
    yield opened
    for process in opened.processes:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@pytest.fixture
def framework_url(postgres: Any) -> Iterator[str]:
    """An empty database of the agents, for a framework's checkpoints and for their tools."""
    name = postgres.create()
    yield postgres.url(name)
    postgres.drop(name)
