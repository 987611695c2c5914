"""The whole front end in a real browser: the real service, the refund agent, the demo's checkpoints."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from signoff_demo import rules
from signoff_demo.examples import shop
from signoff_demo.examples.refunds import refunds

# Without the extra `e2e`, this import skips the file, as it skips that one.
from tests.e2e.test_page import browser  # noqa: F401
from tests.integration.service.conftest import House, http_house, until  # noqa: F401

from playwright.async_api import Browser, Locator, Page, expect  # isort: skip

pytestmark = pytest.mark.e2e

ADA, GRACE, LINUS = "U0ADA", "U0GRACE", "U0LINUS"
PATIENCE_MS = 15_000


@dataclass(frozen=True)
class Desk:
    """One browser page before a running service; people act one after the other."""

    house: House
    page: Page

    async def be(self, user: str) -> None:
        """Act as this person."""
        await self.page.locator(f'[data-person="{user}"]').click()
        await expect(self.page.locator(f'[data-person="{user}"]')).to_have_attribute("aria-pressed", "true")

    async def go(self, channel: str) -> None:
        await self.page.locator(f'[data-channel="{channel}"]').first.click()

    async def type(self, words: str, box: str = "#composer") -> None:
        await self.page.locator(f"{box} textarea").fill(words)
        await self.page.locator(f"{box} textarea").press("Enter")

    async def asked(self, order: int, reviewer: str = GRACE) -> Locator:
        """Ada asks for a refund; the reviewer stands before the card."""
        await self.be(ADA)
        await self.go("C0AGENTS")
        await self.type(f"/agent run refunds please refund order {order}")
        await self.go("C0REVIEW")
        await self.be(reviewer)
        return await self.card(order)

    async def card(self, order: int) -> Locator:
        card = self.page.locator("#messages article", has_text=f"for order {order}").last
        await expect(card).to_be_visible(timeout=PATIENCE_MS)
        return card

    async def approve(self, place: Locator) -> None:
        """Press Approve, and confirm it."""
        await place.get_by_role("button", name="Approve: ").click()
        await self.page.locator("#confirm-yes").click()

    def modal(self, title: str) -> Locator:
        return self.page.get_by_role("dialog", name=title)

    async def ends(self, order: int, status: str) -> None:
        """Wait until the order in the shop's table has this status."""

        async def look() -> bool:
            found = await shop.find(order)
            return found is not None and found.status == status

        await until(look, PATIENCE_MS / 1000)

    async def thread_of(self, article: Locator) -> Locator:
        """Open the thread under this message."""
        await article.hover()
        await article.get_by_role("button", name="Reply in thread").click()
        await expect(self.page.locator("#thread")).to_be_visible()
        return self.page.locator("#replies")


@pytest_asyncio.fixture
async def actors(
    browser: Browser,  # noqa: F811
    http_house: House,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Desk]:
    """The refund agent behind the demo's own checkpoints, and a page on it."""
    monkeypatch.setenv("SIGNOFF_SHOP_URL", http_house.url)
    await shop.setup(fresh=True)
    await http_house.open([refunds], rules.tour_policy(60).text)
    complaints: list[str] = []
    page = await browser.new_page(viewport={"width": 1180, "height": 860}, device_scale_factor=1.25)
    page.set_default_timeout(PATIENCE_MS)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    await page.goto(f"{http_house.slack.url}/#channel=C0AGENTS&user={ADA}")
    await expect(page.locator("#place")).to_have_text("# agents")
    yield Desk(http_house, page)
    await page.close()
    assert complaints == []


async def test_approve_after_a_confirmation(actors: Desk) -> None:
    """A slash command leads to a card; "Approve", confirmed, makes the refund, and the card loses its buttons."""
    card = await actors.asked(7)
    await expect(card).to_contain_text("1,249.5")
    await actors.approve(card)
    await actors.ends(7, "REFUNDED")
    await expect(card.get_by_role("button", name="Approve: ")).to_have_count(0)
    await expect(card).to_contain_text("Approved")


_LINES = """card => {
  const buttons = card.querySelector('.actions'), ends = [];
  const texts = document.createTreeWalker(card.querySelector('.blocks'), NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text && !buttons.contains(text); text = texts.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(text);
    ends.push(...[...range.getClientRects()].filter(box => box.width > 1).map(box => box.bottom));
  }
  ends.sort((one, other) => one - other);
  return ends.filter((end, at) => !at || end - ends[at - 1] > 8).length;
}"""
"""Lines above the buttons. What stands in one line ends within 8 px."""


async def test_nine_lines_on_a_phone_stand_above_the_buttons(actors: Desk) -> None:
    """What decides is read without scrolling: title, who decides, the facts, and for whom until when."""
    card = await actors.asked(7)
    await actors.page.set_viewport_size({"width": 390, "height": 844})
    assert await card.evaluate(_LINES) == 9
    await card.get_by_role("button", name="Approve: ").scroll_into_view_if_needed()
    await expect(card.locator(".header")).to_be_in_viewport()


async def test_reject_with_a_reason(actors: Desk) -> None:
    """The form requires a reason and offers the checkpoint's own; the requester reads it from the agent."""
    card = await actors.asked(5, LINUS)
    await card.get_by_role("button", name="Reject: ").click()
    form = actors.modal("Reject")
    await form.get_by_role("button", name="Reject", exact=True).click()
    await expect(form.locator(".error").first).to_be_visible()
    await form.get_by_label("Wrong customer").check()
    await form.get_by_role("button", name="Reject", exact=True).click()
    await expect(form).to_be_hidden()
    await actors.ends(5, "REFUND_REJECTED")
    await expect(card).to_contain_text("Wrong customer")
    await actors.house.says("Wrong customer")


async def test_edit_then_somebody_else_approves(actors: Desk) -> None:
    """An edit into stricter rules is refused in its open form; a good one is the new revision, for somebody else."""
    card = await actors.asked(5)
    await card.get_by_role("button", name="More…: ").click()
    await actors.modal("More").get_by_role("button", name="Edit: ").click()
    form = actors.modal("Edit")
    await form.locator("input").fill("6")
    await form.get_by_role("button", name="Save changes").click()
    await expect(form.locator(".error").first).to_contain_text("stricter rules")
    await expect(form.locator("input")).to_have_value("6")
    await form.locator("input").fill("7")
    await form.get_by_role("button", name="Save changes").click()
    await expect(form).to_be_hidden()
    card = await actors.card(7)
    await expect(await actors.thread_of(card)).to_contain_text("by @grace")
    await actors.approve(card)
    await expect(actors.page.locator("article.private").last).to_contain_text("You edited this action")
    await actors.be(LINUS)
    await actors.approve(card)
    await actors.ends(7, "REFUNDED")
    await actors.ends(5, "PAID")  # it waited for people until it was edited away


async def test_a_shortcut_is_found_behind_the_slash(actors: Desk) -> None:
    """As in Slack, a global shortcut is offered with the commands, and opens its modal."""
    await actors.asked(7)
    await actors.page.locator("#composer textarea").fill("/my")
    await actors.page.get_by_role("option", name="My approvals").click()
    await expect(actors.page.locator("#modal")).to_contain_text("for order 7")


async def test_two_people_make_a_quorum(actors: Desk) -> None:
    """After one of two approvals nothing runs and the card says how many are missing; the second one decides."""
    card = await actors.asked(6)
    await actors.approve(card)
    await expect(card).to_contain_text("1 of 2")
    order = await shop.find(6)
    assert order is not None
    assert order.status == "PENDING_REFUND"
    await actors.be(LINUS)
    await actors.approve(card)
    await actors.ends(6, "REFUNDED")


async def test_details_show_everything(actors: Desk) -> None:
    """Details opens a modal with the arguments, the facts and what the agent was asked, and can approve there."""
    card = await actors.asked(7)
    await card.get_by_role("button", name="Details: ").click()
    details = actors.page.locator("#modal")
    for words in ("order_id", "Espresso machine", "Greta Lindqvist", "please refund order 7"):
        await expect(details).to_contain_text(words)
    await actors.approve(details)
    await actors.ends(7, "REFUNDED")


async def test_app_home_shows_what_waits_and_decides(actors: Desk) -> None:
    """Requests that wait for a reviewer are in their Home, with the same buttons; the requester sees their own."""
    await actors.asked(5)
    await actors.asked(7)
    home = actors.page.locator("#home")
    await actors.page.locator("#open-home").click()
    await expect(home).to_contain_text("for order 7")
    await actors.be(ADA)
    await expect(home).to_contain_text("for order 7")
    await expect(home.get_by_role("button", name="Approve: ")).to_have_count(0)
    await actors.be(GRACE)
    await expect(home.get_by_role("button", name="Approve: ")).to_have_count(2)
    await home.get_by_role("button", name="Approve: ").first.click()
    await actors.page.locator("#confirm-yes").click()
    await expect(home.get_by_role("button", name="Approve: ")).to_have_count(1)

    async def paid() -> bool:
        return [order.status for order in await shop.orders()].count("REFUNDED") == 1

    await until(paid, PATIENCE_MS / 1000)
    await expect(home).to_contain_text("Approved")


async def test_history_by_slash_command(actors: Desk) -> None:
    """`/approvals history` lists decisions for a reviewer; nobody else can read the answer."""
    card = await actors.asked(7)
    await actors.approve(card)
    await actors.ends(7, "REFUNDED")
    await actors.type("/approvals history agent:refunds")
    answer = actors.page.locator("article.private").last
    await expect(answer).to_contain_text("for order 7")
    await actors.be(LINUS)
    await expect(actors.page.locator("article.private")).to_have_count(0)


async def test_a_reply_in_the_runs_thread_is_answered_while_people_decide(actors: Desk) -> None:
    """The conversation continues in the run's thread, and nothing said there decides anything."""
    await actors.asked(7)
    await actors.be(ADA)
    await actors.go("C0AGENTS")
    replies = await actors.thread_of(actors.page.locator("#messages article").last)
    await actors.type("what is the status of order 7?", "#reply")
    await expect(replies).to_contain_text("PENDING_REFUND", timeout=PATIENCE_MS)
    order = await shop.find(7)
    assert order is not None
    assert order.status == "PENDING_REFUND"
