"""Actions of people through the sandbox's public interface; and stored state, for checks."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

from agent.database.pools import Database
from agent.domain.request_view import RequestView
from agent.store import views
from signoff_demo.environment import DemoEnvironment
from signoff_demo.examples import shop
from signoff_demo.guide import AGENTS, REVIEWS
from signoff_demo.sandbox import InteractionResult, ScreenUser

Message = dict[str, Any]

QUIET_SECONDS = 1.5
"""Longer than the second between messages in a channel: then nothing is being sent."""


class Actors:
    """Ada asks, Grace and Linus decide. No method acts through the service's internals."""

    def __init__(self, env: DemoEnvironment, db: Database) -> None:
        self.env = env
        self._slack = env.slack
        self._db = db
        self.ada: ScreenUser = env.slack.person("U0ADA")
        self.grace: ScreenUser = env.slack.person("U0GRACE")
        self.linus: ScreenUser = env.slack.person("U0LINUS")

    async def ask(
        self, words: str, by: ScreenUser | None = None, where: str = AGENTS, agent: str = "refunds"
    ) -> Message:
        before = {each["ts"] for each in self._slack.messages(where)}
        await (by or self.ada).command("/agent", f"run {agent} {words}", where)
        return await self._slack.wait_for(
            lambda: next((each for each in self._slack.messages(where) if each["ts"] not in before), {}),
            timeout=10,
        )

    def said(self, root: Message) -> str:
        thread = self._slack.thread(root["channel"], root["ts"])
        return "\n".join(each["text"] for each in thread)

    def quiet(self) -> bool:
        return time.time() - self._slack.calls[-1].at > QUIET_SECONDS

    def cards(self, order: int) -> list[Message]:
        return self.cards_with(f"order {order}")

    def cards_with(self, words: str) -> list[Message]:
        return [each for each in self._slack.messages(REVIEWS) if words in each["text"]]

    def card(self, order: int) -> Message:
        return self.cards(order)[-1]

    def buttons(self, order: int) -> list[str]:
        rows = [block for block in self.card(order)["blocks"] if block["type"] == "actions"]
        return [each["text"]["text"] for row in rows for each in row["elements"] if "url" not in each]

    async def status(self, order: int) -> str:
        """The order's status in the shop, with its cause: `REFUND_REJECTED, expired`."""
        found = await shop.find(order)
        if found is None:
            return "no such order"
        return f"{found.status}, {found.cause}" if found.cause else found.status

    async def request(self, order: int) -> RequestView:
        wanted = UUID(self.card(order)["metadata"]["event_payload"]["request"])
        found = await self._db.read(views.request_view, wanted)
        if found is None:
            raise LookupError(f"the card names request {wanted}, and there is none")
        return found

    async def attempts(self, order: int) -> int:
        execution = (await self.request(order)).execution
        return 0 if execution is None else execution.attempt

    async def waiting(self) -> int:
        return await self._db.read(views.count_waiting, team_id=self._slack.workspace.team.id)


def ephemeral_text(answer: InteractionResult) -> str:
    return "\n".join(str(each.get("text", "")) for each in (*answer.ephemeral, *answer.posts))
