"""Seven surfaces say the same of a run: card, its thread, the run's message, App Home, page, API, command line."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any

from agent.domain.api_keys import Scope
from agent.runtime.agents import Agent
from agent.runtime.tool import tool
from agent.usecases import api_keys
from tests.integration.command import Command
from tests.integration.service.conftest import House, http_house, until  # noqa: F401
from tests.integration.web.conftest import POLICY, Program
from tests.integration.web.visiting import ADA, PUBLIC, Visitor, open_porch

AGREED = 30.0
"""Seconds after which they have to agree on any machine; `make stress` times them."""


@dataclass
class Gate:
    """The tool waits here, and then nobody knows whether it has done it."""

    opened: threading.Event = field(default_factory=threading.Event)

    def agent(self) -> Agent:
        @tool
        def delete_records(table_name: str, count: int) -> str:
            """Delete records from a table."""
            self.opened.wait(60.0)
            raise TimeoutError("the database did not answer")

        return Agent("data", "You manage data.", [delete_records])


@dataclass
class Surfaces:
    """Where the one run of a running service is shown."""

    house: House
    page: Visitor
    program: Program
    signoff: Command
    run_id: str
    card: dict[str, Any]

    async def say(self, **words: str) -> None:
        """Wait until each of them says its words."""
        began = monotonic()
        for name in sorted(words, key=lambda name: name == "home"):
            patience = AGREED - (monotonic() - began)
            read: Callable[[], Awaitable[str]] = getattr(self, f"_{name}")
            try:
                await until(partial(_has, read, words[name]), patience)
            except AssertionError:
                raise AssertionError(f"{name} does not say {words[name]!r} but {await read()!r}") from None
        listed = await asyncio.to_thread(self.signoff, "runs", "--json", DATABASE_URL=self.house.url)
        [run] = [json.loads(line) for line in listed.said.splitlines() if line.startswith("{")]
        assert f"{run['status']} {run['in_doubt']}" == words["api"]
        table = await asyncio.to_thread(self.signoff, "runs", DATABASE_URL=self.house.url)
        assert ("in_doubt" in table.said) == (run["in_doubt"] > 0)

    async def _card(self) -> str:
        return str(self.house.now(self.card)["blocks"])

    async def _thread(self) -> str:
        return str(self.house.slack.thread("C0REVIEW", self.card["ts"])[1:])

    async def _message(self) -> str:
        [root] = [m for m in self.house.slack.messages("C0AGENTS") if self.run_id in str(m["metadata"])]
        return str(root["text"])

    async def _home(self) -> str:
        return str(self.house.slack.home(ADA.user_id))

    async def _page(self) -> str:
        await self.page.open(f"/inbox/runs/{self.run_id}")
        return self.page.words

    async def _api(self) -> str:
        agent = (await self.program.get(f"/agents/{self.run_id}")).json()
        return f"{agent['status']} {agent['in_doubt']}"


async def _has(read: Callable[[], Awaitable[str]], words: str) -> bool:
    return words in await read()


async def test_seven_surfaces_agree(http_house: House, signoff: Command) -> None:  # noqa: F811
    """Waiting, working, in doubt, settled: each surface says so as soon as the others."""
    house, gate = http_house, Gate()
    porch = await open_porch(
        house, [gate.agent()], POLICY, SIGNOFF_ROLES="web,worker,scheduler", SIGNOFF_PUBLIC_URL=PUBLIC
    )
    secret = await api_keys.create(house.db, "reader", [Scope.READ], by="test", owner=ADA)
    address, presented = f"http://127.0.0.1:{porch.service.port}", {"Authorization": f"Bearer {secret}"}
    page = await porch.visitor(ADA.user_id)
    house.slack.person("U0ADA").open_home()
    await house.ask("U0ADA", "please delete_records table_name=users count=50")
    card = await house.card()
    [run_id] = await house.column("SELECT id::text FROM agent_run")
    async with Program(base_url=address, headers=presented, timeout=30) as program:
        shown = Surfaces(house, page, program, signoff, run_id, card)
        waits = "Waiting for review"
        await shown.say(
            card="until <!date",
            thread="",
            message=waits,
            home=waits,
            page="Waiting",
            api="pending_approval 0",
        )
        await house.slack.person("U0GRACE").click(card, "signoff:approve")
        await shown.say(
            card="Running",
            thread="Approved",
            message="▶ Working",
            home="▶ Working",
            page="Working",
            api="working 0",
        )
        gate.opened.set()
        doubt = "In doubt"
        await shown.say(
            card=doubt, thread=doubt, message=f"⚠ {doubt}", home=doubt, page=doubt, api="working 1"
        )
        await house.says("settle it on its card")
        await house.says(f"<@{ADA.user_id}>")
        await house.slack.person("U0GRACE").click(house.now(card), "signoff:done")
        ended, api = "✅ Completed", "completed 0"
        await shown.say(
            card="Marked as done",
            thread="Settled",
            message=ended,
            home="Delete 50",
            page="Completed",
            api=api,
        )
    for visitor in porch.visitors:
        await visitor.aclose()
