"""How soon seven surfaces say the same after a decision, in a quiet channel and in a busy one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any

import pytest

from agent.domain.api_keys import Scope
from agent.usecases import api_keys
from tests.integration.command import Command, signoff  # noqa: F401
from tests.integration.service.conftest import DELETIONS, House, http_house, until  # noqa: F401
from tests.integration.web.conftest import Program
from tests.integration.web.visiting import ADA, PUBLIC, Visitor, open_porch
from tests.stress.budget import full
from tests.stress.rounds import counted

CHANNEL = "C0AGENTS"
EVERY = 5.0
"""Seconds between two runs: twelve a minute."""

REQUEST = "SELECT r.id::text FROM approval_request AS r JOIN agent_run AS a ON a.id = r.run_id WHERE a.task LIKE :task"
POLICY = DELETIONS.replace("C0REVIEW", CHANNEL).replace("[defaults]", "[defaults]\ncards_per_minute = 60")


@dataclass
class Surfaces:
    """Where people and programs read how a request of a running service ended."""

    house: House
    page: Visitor
    program: Program
    command: Command
    asked: int = 0

    async def ask(self) -> tuple[str, dict[str, Any]]:
        """One more run, whose request waits; its id and its card."""
        self.asked += 1
        task = f"please delete_records table_name=t{self.asked} count=50"
        await self.house.ask("U0ADA", task)
        [request] = await until(lambda: self.house.column(REQUEST, task=f"%t{self.asked} %"))
        return request, await self.house.slack.wait_for(partial(self._card_of, request))

    async def decided(
        self, request: str, card: dict[str, Any], verdict: str, *, patience: float = 120.0
    ) -> dict[str, float]:
        """Approve on the page, or reject in Slack; return the seconds until each surface shows it."""
        run = (
            await self.house.column("SELECT run_id::text FROM approval_request WHERE id = :id", id=request)
        )[0]
        grace = self.house.slack.person("U0GRACE")
        if verdict == "approved":
            await self.page.open(f"/inbox/requests/{request}")
            await self.page.send(f"/inbox/requests/{request}/approve", {"revision": "1"})
        else:
            await grace.click(card, "signoff:reject")
            await grace.submit(self.house.slack.views("U0GRACE")[-1], {"signoff:reason_input": "no"})
        began = monotonic()
        word = verdict.capitalize()
        reads: dict[str, Callable[[], Awaitable[bool]]] = {
            "card": partial(self._card, card, word),
            "thread": partial(self._thread, card, word),
            "message": partial(self._message, run),
            "home": partial(self._home, request),
            "page": partial(self._page, request, word),
            "api": partial(self._api, request, verdict),
            "cli": partial(self._cli, request, verdict),
        }

        async def seconds(read: Callable[[], Awaitable[bool]]) -> float:
            await until(read, patience)
            return monotonic() - began

        return dict(zip(reads, await asyncio.gather(*map(seconds, reads.values())), strict=True))

    def _card_of(self, request: str) -> dict[str, Any] | None:
        found = (m for m in self.house.slack.messages(CHANNEL) if request in str(m.get("metadata")))
        return next(found, None)

    async def _card(self, card: dict[str, Any], word: str) -> bool:
        return word in str(self.house.now(card)["blocks"])

    async def _thread(self, card: dict[str, Any], word: str) -> bool:
        return word in str(self.house.slack.thread(CHANNEL, card["ts"])[1:])

    async def _message(self, run: str) -> bool:
        [root] = [m for m in self.house.slack.messages(CHANNEL) if run in str(m["metadata"])]
        return "Waiting for review" not in root["text"]

    async def _home(self, request: str) -> bool:
        """Among what was decided: nothing about it can be pressed but to open it."""
        shown = str(self.house.slack.home("U0GRACE"))
        return request in shown and f".{request}." not in shown

    async def _page(self, request: str, word: str) -> bool:
        await self.page.open(f"/inbox/requests/{request}")
        return f"{word} by @grace" in self.page.words

    async def _api(self, request: str, verdict: str) -> bool:
        return (await self.program.get(f"/pending/{request}")).json()["status"] == verdict

    async def _cli(self, request: str, verdict: str) -> bool:
        command = await asyncio.to_thread(self.command, "requests", "--json", DATABASE_URL=self.house.url)
        listed = [json.loads(line) for line in command.said.splitlines() if line.startswith("{")]
        return [each["status"] for each in listed if each["id"] == request] == [verdict]


@asynccontextmanager
async def surfaces(
    house: House, command: Command, roles: str = "web,worker,scheduler"
) -> AsyncIterator[Surfaces]:
    porch = await open_porch(house, (), POLICY, SIGNOFF_ROLES=roles, SIGNOFF_PUBLIC_URL=PUBLIC)
    secret = await api_keys.create(house.db, "reader", [Scope.READ], by="test", owner=ADA)
    address, presented = f"http://127.0.0.1:{porch.service.port}", {"Authorization": f"Bearer {secret}"}
    async with AsyncExitStack() as stack:
        program = await stack.enter_async_context(Program(base_url=address, headers=presented, timeout=30))
        page = await porch.visitor("U0GRACE")
        for visitor in porch.visitors:
            stack.push_async_callback(visitor.aclose)
        house.slack.person("U0GRACE").open_home()
        yield Surfaces(house, page, program, command)


@pytest.mark.stress
async def test_seven_surfaces_agree_within_a_second(http_house: House, signoff: Command) -> None:  # noqa: F811
    """After each decision in a quiet channel: card, run message, thread, App Home, page, API, command line."""
    async with surfaces(http_house, signoff) as shown:
        worst: dict[str, float] = {}
        for verdict in counted(["approved", "rejected"] * full(5)):
            request, card = await shown.ask()
            await asyncio.sleep(4.0)  # the quiet itself
            took = await shown.decided(request, card, verdict)
            worst = {name: max(seconds, worst.get(name, 0.0)) for name, seconds in took.items()}
        assert max(worst.values()) <= 1.0, worst


@pytest.mark.stress
async def test_seven_surfaces_agree_within_ten_seconds_in_a_busy_channel(
    http_house: House,  # noqa: F811
    signoff: Command,  # noqa: F811
) -> None:
    """The same while twelve runs a minute, each asking people, go through one channel."""
    async with surfaces(http_house, signoff) as shown:
        worst: dict[str, float] = {}

        async def one(verdict: str) -> None:
            request, card = await shown.ask()
            took = await shown.decided(request, card, verdict)
            worst.update({name: max(seconds, worst.get(name, 0.0)) for name, seconds in took.items()})

        async with asyncio.TaskGroup() as runs:
            for number in counted(range(full(36))):
                runs.create_task(one("rejected" if number % 3 == 0 else "approved"))
                await asyncio.sleep(EVERY)  # the pace itself
        assert max(worst.values()) <= 10.0, worst
