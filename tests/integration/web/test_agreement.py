"""The card in Slack, the inbox page and the API say the same, whichever of them was decided on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from agent.domain.api_keys import Scope
from agent.usecases import api_keys
from signoff.values import Person
from tests.integration.service.conftest import House, http_house, until  # noqa: F401
from tests.integration.web.conftest import POLICY, Program
from tests.integration.web.visiting import ADA, GRACE, PUBLIC, Porch, Visitor, open_porch

Decide = Callable[[str, dict[str, Any]], Awaitable[Any]]


class Doors:
    """Three ways to decide and three places to look, before one running service."""

    def __init__(self, porch: Porch, asker: Program, decider: Program, page: Visitor) -> None:
        self._porch = porch
        self._asker = asker
        self._decider = decider
        self._page = page
        self._asked = 0

    async def question(self) -> tuple[str, dict[str, Any]]:
        """A new request, and its card."""
        answer = await self._asker.ask(f"q-{self._asked}")
        card = await self._porch.house.card(self._asked)
        self._asked += 1
        return str(answer.json()["id"]), card

    async def slack(self, _request: str, card: dict[str, Any]) -> None:
        await self._porch.house.slack.person(GRACE.user_id).click(card, "signoff:approve")

    async def page(self, request: str, _card: dict[str, Any]) -> None:
        await self._page.open(f"/inbox/requests/{request}")
        answer = await self._page.send(f"/inbox/requests/{request}/approve", {"revision": "1"})
        assert answer.status_code == 303, answer.text

    async def api(self, request: str, _card: dict[str, Any]) -> None:
        assert (await self._decider.decide(request)).status_code == 200

    async def agree(self, request: str, card: dict[str, Any]) -> bool:
        """Whether all three show Grace's approval."""
        pending = (await self._asker.get(f"/pending/{request}")).json()
        await self._page.open(f"/inbox/requests/{request}")
        card_tells = self._porch.house.now(card)["text"].startswith("Approved:")
        seen = (pending["status"], (pending["decided_by"] or {}).get("user_id"))
        return card_tells and seen == ("approved", GRACE.user_id) and "Approved by @grace" in self._page.words


async def _doors(house: House, stack: AsyncExitStack) -> Doors:
    # Fifteen questions of one program within a minute are no flood here.
    porch = await open_porch(
        house,
        (),
        POLICY.replace("[defaults]", "[defaults]\ncards_per_minute = 60"),
        SIGNOFF_ROLES="web,worker,scheduler",
        SIGNOFF_PUBLIC_URL=PUBLIC,
    )

    async def program(name: str, scope: Scope, owner: Person) -> Program:
        secret = await api_keys.create(house.db, name, [scope], by="test", owner=owner)
        url, presented = f"http://127.0.0.1:{porch.service.port}", {"Authorization": f"Bearer {secret}"}
        return await stack.enter_async_context(Program(base_url=url, headers=presented, timeout=30))

    asker = await program("asker", Scope.REQUEST, ADA)
    decider = await program("decider", Scope.DECIDE, GRACE)
    page = await porch.visitor(GRACE.user_id)
    for browser in porch.visitors:
        stack.push_async_callback(browser.aclose)
    return Doors(porch, asker, decider, page)


async def test_whoever_decided_all_three_agree(http_house: House) -> None:  # noqa: F811
    """The card, the page and the API show a decision made in Slack, on the page or by key."""
    async with AsyncExitStack() as stack:
        ctx = await _doors(http_house, stack)
        for decide in (ctx.slack, ctx.page, ctx.api):
            request, card = await ctx.question()
            await decide(request, card)
            assert await until(lambda request=request, card=card: ctx.agree(request, card))  # type: ignore[misc]
