"""Facts through the Python clients: told with a question and again with its claim, and asked again if they differ."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from agent.domain.api_keys import Scope
from agent.usecases import api_keys
from signoff.client import operations
from signoff.errors import ApiError, ApprovalExpired, FactsFailed
from tests.integration.asking import column
from tests.integration.web.conftest import ADA, Program, Street
from tests.integration.web.test_client import Caller, status, waiting
from tests.integration.web.test_facts import REFUNDS


class Shop:
    """What is true about an order, whatever a model says: its price, each time that somebody looks."""

    def __init__(self, *prices: float | None) -> None:
        self.prices = list(prices)
        self.looked: list[Mapping[str, Any]] = []

    def facts(self, **arguments: Any) -> dict[str, Any]:
        """The next price; the last one from then on."""
        self.looked.append(arguments)
        price = self.prices.pop(0) if len(self.prices) > 1 else self.prices[0]
        if price is None:
            raise ConnectionError("the shop is closed")
        return {"price": price}

    async def later(self, **arguments: Any) -> dict[str, Any]:
        """The same, for event loops."""
        await asyncio.sleep(0)
        return self.facts(**arguments)


@pytest.fixture(params=["sync", "async"])
async def caller(site: Street, request: pytest.FixtureRequest) -> AsyncIterator[Caller]:
    """A client of either kind, with a key of scope `facts`."""
    key = await api_keys.create(site.db, "billing", [Scope.REQUEST, Scope.FACTS], by="test", owner=ADA)
    calling = Caller(request.param, site.url, key)
    yield calling
    await calling.close()


@pytest.fixture
async def grace(site: Street) -> Program:
    return await site.reviewer()


async def test_a_lie_is_asked_about_and_a_change_is_asked_about_again(
    site: Street, caller: Caller, grace: Program
) -> None:
    """The decorator sends the facts beside the model's arguments, again at the claim, and keeps waiting."""
    refunded: list[tuple[int, int]] = []

    def refund(order_id: int, amount: int) -> str:
        refunded.append((order_id, amount))
        return "refunded"

    shop = Shop(1500.0, 2500.0)
    running = asyncio.create_task(caller.guard(refund, facts=shop.facts)(order_id=7, amount=1))
    first = await waiting(site)
    await grace.decides(first)
    second = await waiting(site, 2)
    assert refunded == []
    pending = (await grace.get(f"/pending/{second}")).json()
    assert (pending["facts"], pending["facts_source"]) == ({"price": 2500}, "program")
    await grace.decides(second)
    assert await running == "refunded"
    assert refunded == [(7, 1)]
    assert shop.looked == [{"order_id": 7, "amount": 1}] * 3
    assert await caller.guard(refund, facts=Shop(10.0).facts)(8, 1) == "refunded"
    assert await column(site.db, "SELECT status::text FROM execution") == ["succeeded"]


BRIEF = REFUNDS.replace('"refund"', '"refund"\ntimeout_seconds = 4')


@pytest.fixture
def policy(request: pytest.FixtureRequest) -> str:
    return str(getattr(request, "param", REFUNDS))


@pytest.mark.parametrize("policy", [BRIEF], indirect=True)
async def test_policy_says_how_long_a_program_waits_that_is_asked_again(
    site: Street, caller: Caller, grace: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a timeout of its own it waits until the second request expires, too, and withdraws nothing."""
    monkeypatch.setattr(operations, "TIMEOUT", 0.2)  # the program's, which policy overrules
    refunded: list[int] = []
    guarded = caller.guard(refunded.append, action="refund", facts=Shop(1500.0, 2500.0).facts)
    running = asyncio.create_task(guarded(7))
    await grace.decides(await waiting(site))
    with pytest.raises(ApprovalExpired):
        await running
    assert await status(site) == ["approved", "expired"]
    asking = asyncio.create_task(caller.ask("refund", {"order_id": 8}, facts={"price": 1500.0}))
    await grace.decides(await waiting(site, 3))
    by_default = operations.WaitLimit.of(None)
    with pytest.raises(ApprovalExpired):
        await caller.claim(await asking, facts={"price": 2500.0}, timeout=by_default)
    assert refunded == []


async def test_facts_that_cannot_be_looked_up_ask_and_begin_nothing(
    site: Street, caller: Caller, grace: Program
) -> None:
    """People are asked although policy would not; while the look-up fails an approval begins nothing."""
    asked = {"amount": 1}
    asking = asyncio.create_task(caller.ask("transfer", asked, facts=Shop(None).facts, key="transfer-1"))
    await grace.decides(await waiting(site))
    approval = await asking
    with pytest.raises(
        FactsFailed, match="the facts about transfer could not be looked up: the shop is closed"
    ):
        await caller.claim(approval, facts=Shop(None).facts)
    assert await column(site.db, "SELECT count(*) FROM execution") == [0]
    with pytest.raises(ApiError) as refused:
        await caller.claim(approval)
    assert refused.value.kind == "facts-needed"
    with pytest.raises(TypeError, match="claim the Approval"):
        await caller.claim(approval.id, facts=Shop(1.0).facts)
    with pytest.raises(ApiError) as changed:
        await caller.claim(approval, facts={"price": 1.0}, timeout=None)
    assert (changed.value.kind, changed.value.problem["request_id"]) == ("facts-changed", "transfer-1")
    with pytest.raises(TimeoutError, match="the request stays open under its key transfer-1"):
        await caller.claim(approval, facts={"price": 1.0}, timeout=0.1)
    await grace.decides(str(changed.value.problem["id"]))
    approval = await caller.ask("transfer", asked, facts={"price": 1.0}, key="transfer-1")
    claim = await caller.claim(approval, facts={"price": 1.0})
    assert claim.request_id == "transfer-1"


async def test_a_look_up_may_be_async_in_a_loop(site: Street, caller: Caller) -> None:
    """A client for threads says that it cannot wait for one, and people are asked then."""
    asked = await caller.submit("refund", {"order_id": 7}, facts=Shop(10.0).later)
    assert asked.status == ("not_required" if caller.kind == "async" else "waiting")
