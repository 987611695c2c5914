"""A service that dies while a program asks, claims and reports; the program repeats what got no answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from agent.domain.api_keys import Scope
from agent.usecases import api_keys
from signoff.values import Person
from signoff_demo.sandbox import NotOnScreen
from tests.integration import invariants
from tests.integration.asking import write
from tests.integration.crash.process import FAULT_STATUS
from tests.integration.crash.street import Street, street, until
from tests.integration.on_record import put_terms_on_record

EXPIRES = "in_expiry_batch"
BY_PROGRAM = (
    "before_request_commits",
    "after_request_commits",
    "after_card_accepted",
    "before_decision_commits",
    "after_decision_commits",
    "after_claim",
    "after_effect",
    "after_result",
    EXPIRES,
)
"""The other points belong to what is executed here: a program's call never passes them."""


@dataclass
class Program:
    here: Street
    secret: str
    tokens: dict[int, str] = field(default_factory=dict)
    """Of claims that were answered; the line is written behind the first answer."""
    over: set[int] = field(default_factory=set)

    async def plays(self, lane: int, *, expires: bool = False) -> None:
        """Until its line is written and reported, or the service has died."""
        await until(lambda: self._is_over(lane, expires=expires), 60.0, self.here.serve.said)

    async def _is_over(self, lane: int, *, expires: bool) -> bool:
        if lane not in self.over:
            with suppress(httpx.TransportError, NotOnScreen):
                await self._goes_on(lane, expires=expires)
        return lane in self.over or not self.here.serve.alive

    async def _goes_on(self, lane: int, *, expires: bool) -> None:
        name = f"line-{lane}"
        about = {
            "action_description": f"Write line {lane}",
            "action": "write_line",
            "arguments": {"lane": lane},
        }
        asked = await self._post("", {"request_id": name, **about})
        if asked is None:
            return
        if asked["status"] == "waiting":
            if not self.here.cards(lane):  # what expires before it is shown gets no card
                return
            if expires:
                await self.here.make_overdue(lane)
                await put_terms_on_record(self.here.db)
            else:
                await self.here.approve(lane)
            return
        if asked["status"] != "approved":
            self.over.add(lane)
            return
        if lane not in self.tokens:
            claimed = await self._post(f"/{name}/claim", {}, **{"Idempotency-Key": f"claim-{lane}"})
            if claimed is None:
                return
            self.tokens[lane] = claimed["token"]
            with self.here.sink.open("a") as sink:
                sink.write(f"{lane}\n")
        done = {"token": self.tokens[lane], "status": "succeeded", "result": "written"}
        if await self._post(f"/{name}/result", done) is not None:
            self.over.add(lane)

    async def _post(self, path: str, body: dict[str, Any], **headers: str) -> dict[str, Any] | None:
        """None: the service is busy or going; what is not allowed fails."""
        sent = {"Authorization": f"Bearer {self.secret}", **headers}
        url = f"http://127.0.0.1:{self.here.serve.port}/pending{path}"
        async with httpx.AsyncClient(timeout=10) as client:
            answer = await client.post(url, json=body, headers=sent)
        if answer.status_code in (409, 429) or answer.status_code >= 500:
            assert answer.status_code != 409 or "under-way" in answer.text, answer.text
            return None
        assert answer.status_code in (200, 201), answer.text
        found: dict[str, Any] = answer.json()
        return found


async def die_by_a_program(url: str, folder: Path, *, deaths: Sequence[str]) -> None:
    """At the end each line is written once, by one attempt, with one card and one decision."""
    async with street(url, folder, lanes=len(deaths)) as here:
        ada = Person(here.slack.workspace.team.id, "U0ADA")
        secret = await api_keys.create(here.db, "shop", [Scope.REQUEST], by="test", owner=ada)
        program = Program(here, secret)
        for lane, death in enumerate(deaths):
            await here.start(death)
            story = asyncio.create_task(program.plays(lane, expires=death == EXPIRES))
            assert await here.serve.ends(60.0) == FAULT_STATUS, f"{death}: {here.serve.said()}"
            await story
            # As if a minute had passed: so long the service expects the call that it died of to be answered.
            await write(here.db, "DELETE FROM http_reply WHERE status IS NULL")
        await here.start()
        # What is overdue is not approved: a late click is answered without an error, too.
        await asyncio.gather(
            *(program.plays(lane, expires=death == EXPIRES) for lane, death in enumerate(deaths))
        )
        await until(lambda: _is_told(here), 30.0, here.serve.said)
        await here.check()
        assert await here.column("SELECT DISTINCT executor::text FROM execution") == ["program"]
        assert await here.column("SELECT max(attempt) FROM execution") == [1]
        moved = {("a fact has the time of its event", "request.opened")} if EXPIRES in deaths else set()
        assert set(await invariants.broken(here.db)) <= moved  # two days passed for what expires


async def _is_told(here: Street) -> bool:
    return not await here.column("SELECT 1 FROM delivery WHERE state = 'pending'")
