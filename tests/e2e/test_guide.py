"""The demo as a newcomer meets it: the real service, the guide's buttons, and the printed commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from signoff_demo import guided_scenes, rules
from signoff_demo.environment import DemoEnvironment, open_environment
from signoff_demo.sandbox import demo_workspace
from signoff_demo.workdir import claim_workdir

# Without the extra `e2e`, this import skips the file, as it skips that one.
from tests.e2e.test_page import browser  # noqa: F401

from axe_playwright_python.async_playwright import Axe  # isort: skip
from playwright.async_api import Browser, Locator, Page, expect  # isort: skip

pytestmark = pytest.mark.e2e

PATIENCE_MS = 150_000
"""The service starts in two seconds, or in a minute beside other work."""
EXPIRES = 8


@dataclass
class Newcomer:
    """Somebody who has just opened the page, and counts their clicks."""

    demo: DemoEnvironment
    page: Page
    clicks: int = field(default=0)

    @property
    def guide(self) -> Locator:
        return self.page.get_by_role("complementary", name="Guide")

    async def click(self, place: Locator) -> None:
        await place.click()
        self.clicks += 1

    async def step(self, label: str) -> None:
        """Press the button of the next step, once it is there."""
        await self.click(self.guide.locator(".current").get_by_role("button", name=label))

    async def card(self, words: str) -> Locator:
        return self.page.locator("#messages article", has_text=words).last

    async def approve(self, words: str, *, confirmed: bool = True) -> None:
        card = await self.card(words)
        await self.click(card.get_by_role("button", name="Approve: "))
        if confirmed:
            await self.click(self.page.locator("#confirm-yes"))

    async def done(self, number: int) -> None:
        await expect(self.page.locator("#guide-count")).to_have_text(f"{number} of 16 done")


@pytest_asyncio.fixture
async def newcomer(
    browser: Browser,  # noqa: F811
    postgres: object,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Newcomer]:
    """`signoff demo` with a shorter deadline, and a browser that opens its address."""
    monkeypatch.setenv("SIGNOFF_HOME", str(_home(postgres)))
    guide, policy, workspace = guided_scenes.for_refunds(), rules.tour_policy(EXPIRES), demo_workspace()
    complaints: list[str] = []
    async with AsyncExitStack() as stack:
        workdir = stack.enter_context(claim_workdir())
        demo = await stack.enter_async_context(
            open_environment(workdir, policy, workspace, guide, print, port=0)
        )
        page = await browser.new_page(viewport={"width": 1280, "height": 860}, locale="en-US")
        page.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        await page.goto(demo.slack.url)
        yield Newcomer(demo, page)
        await page.close()
    expect.set_options(timeout=5_000)
    assert complaints == []


def _home(postgres: object) -> Path:
    """A folder that the embedded server's own user may pass."""
    home = Path(postgres.server.data_dir).parent / "guide"  # type: ignore[attr-defined]
    home.mkdir(mode=0o755, exist_ok=True)
    return home


async def test_the_first_card_is_approved_in_four_clicks(newcomer: Newcomer) -> None:
    """The page opens in #agents with a welcome; four clicks later a refund is approved. Nothing bars anybody's way."""
    page = newcomer.page
    await expect(page.locator("#place")).to_have_text("# agents")
    await expect(page.locator("#messages")).to_contain_text("Welcome to Signoff")
    await newcomer.step("Ask as Ada")
    await newcomer.step("Show Grace the card")
    await newcomer.approve("for order 7")
    await newcomer.done(1)
    assert newcomer.clicks == 4
    card = await newcomer.card("for order 7")
    await expect(card).to_contain_text("Approved by @grace")
    await newcomer.guide.get_by_role("button", name="Show the run").click()
    await expect(page.locator("#replies")).to_contain_text("has been made")
    await page.get_by_role("link", name="#refund-reviews").first.click()
    await expect(page.locator("#place")).to_have_text("# refund-reviews")
    for width, height in ((1280, 860), (390, 844)):
        await page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme)
            for place in ("C0AGENTS", "C0REVIEW"):
                await page.evaluate(f"location.hash = 'channel={place}'")
                found = await Axe().run(page)
                assert found.violations_count == 0, found.generate_report()
        assert await page.evaluate("document.documentElement.scrollWidth") == width


async def test_the_guide_leads_through_everything(newcomer: Newcomer) -> None:
    """Each step is ticked when it has happened: crash, expiry, and a decision in the browser's inbox too."""
    page = newcomer.page
    await newcomer.step("Ask as Ada")
    await newcomer.step("Show Grace the card")
    await newcomer.approve("for order 7")
    await newcomer.done(1)
    await newcomer.step("Ask as Ada")
    await newcomer.done(2)

    await newcomer.step("Ask as Ada")
    await newcomer.step("Show Ada the card")
    await newcomer.approve("for order 5")
    await newcomer.step("Show Linus the card")
    await (await newcomer.card("for order 5")).get_by_role("button", name="Reject: ").click()
    form = page.get_by_role("dialog", name="Reject")
    await form.get_by_label("Wrong customer").check()
    await form.get_by_role("button", name="Reject", exact=True).click()
    await newcomer.done(3)

    await newcomer.step("Ask as Ada")
    await newcomer.step("Show Grace the card")
    await (await newcomer.card("for order 9")).get_by_role("button", name="More…: ").click()
    await page.get_by_role("dialog", name="More").get_by_role("button", name="Edit: ").click()
    form = page.get_by_role("dialog", name="Edit")
    await form.locator("input").fill("4")
    await form.get_by_role("button", name="Save changes").click()
    await newcomer.step("Show Linus the card")
    await newcomer.approve("for order 4")
    await newcomer.done(4)

    await newcomer.step("Ask as Ada")
    await newcomer.step("Ask for the status as Ada")
    await expect(page.locator("#replies")).to_contain_text("PENDING_REFUND")
    await newcomer.step("Show Grace the card")
    await newcomer.approve("for order 6")
    await newcomer.step("Crash the service")
    await newcomer.step("Show Linus the card")
    await newcomer.approve("for order 6")
    await newcomer.done(5)

    await newcomer.step("Ask as Ada")
    await newcomer.step("Show Ada the card")
    await (await newcomer.card("for order 8")).get_by_role("button", name="Ask again").click()
    await newcomer.done(6)

    await newcomer.step("Ask as Ada")
    async with page.context.expect_page() as opened:
        await newcomer.step("Open Grace's inbox")
    inbox = await opened.value
    await inbox.get_by_role("button", name="Sign in").click()
    await inbox.locator(".row .open", has_text="for order 10").click()
    await inbox.get_by_label("Yes, I have read it").check()
    await inbox.get_by_role("button", name="Approve", exact=True).click()
    await newcomer.done(7)
    await inbox.close()

    await newcomer.step("Ask as Ada")
    await newcomer.step("Show Grace the card")
    await newcomer.approve("Delete 50 records")
    await newcomer.step("Show Linus the card")
    await (await newcomer.card("send_notification")).get_by_role("button", name="Reject: ").click()
    form = page.get_by_role("dialog", name="Reject")
    await form.locator("textarea, input[type=text]").first.fill("Nobody needs to know")
    await form.get_by_role("button", name="Reject", exact=True).click()
    await newcomer.done(8)

    await newcomer.step("Start as Ada")
    await newcomer.step("Show Grace the card")
    await newcomer.approve("move house", confirmed=False)
    await newcomer.done(9)

    await newcomer.step("Start as Ada")
    await newcomer.step("Show Grace the card")
    await (await newcomer.card("Which region?")).get_by_role("button", name="Europe: ").click()
    await newcomer.done(10)

    await newcomer.step("Start as Ada")
    await newcomer.step("Show Grace the card")
    card = await newcomer.card("ordered for the new desk")
    await card.get_by_role("button", name="Answer…: ").click()
    form = page.get_by_role("dialog", name="Answer")
    await form.get_by_label("What do you need?").fill("Desk lamp")
    await form.get_by_label("How many?").fill("2")
    await form.get_by_label("Medium").check()
    await form.get_by_label("Yes").check()
    await form.get_by_role("button", name="Answer", exact=True).click()
    await newcomer.done(11)

    await newcomer.step("Ask as Ada")
    await newcomer.step("Show Grace the message")
    group = await newcomer.card("Decide together")
    await group.get_by_role("button", name="Decide together…").click()
    form = page.get_by_role("dialog", name="Decide together")
    await form.get_by_role("checkbox", name=guided_scenes.PEOPLE[-1]).uncheck()
    await form.get_by_label("Approve", exact=True).check()
    await form.get_by_role("button", name="Record", exact=True).click()
    await expect(form).to_contain_text("4 of 5")
    await form.get_by_text("Close", exact=True).click()
    await newcomer.step("Open App Home as Linus")
    home = page.locator("#home")
    await home.get_by_role("button", name="Reject").last.click()
    form = page.get_by_role("dialog", name="Reject")
    await form.locator("textarea, input[type=text]").first.fill("She knows already")
    await form.get_by_role("button", name="Reject", exact=True).click()
    await newcomer.done(12)

    await newcomer.step("Ask as Ada")
    await newcomer.step("Show Grace the card")
    card = await newcomer.card("Delete 20 records")
    await card.get_by_role("button", name="More…: ").click()
    await (
        page.get_by_role("dialog", name="More")
        .get_by_role("button", name="Approve and allow similar…")
        .click()
    )
    form = page.get_by_role("dialog", name="Allow similar calls")
    await form.get_by_label("args.count").fill("1 .. 100")
    await form.get_by_role("button", name="Preview").click()
    await expect(form).to_contain_text("args.count from 1 to 100")
    await form.get_by_role("button", name="Save").click()
    await newcomer.step("Ask as Ada")
    await newcomer.step("Show Grace the card")
    await (await newcomer.card("Allow similar calls")).get_by_role("button", name="Revoke").click()
    await page.locator("#confirm-yes").click()
    await newcomer.done(13)

    await newcomer.step("Ask as Ada")
    await newcomer.step("Ask again as Ada")
    await newcomer.step("Show Grace the card")
    await newcomer.approve("list_orders", confirmed=False)
    await newcomer.done(14)

    await newcomer.step("Replay")
    await expect(page.locator("#messages")).to_contain_text("evaluations were replayed")
    await newcomer.done(15)

    await newcomer.step("Open App Home")
    await expect(page.locator("#home")).to_contain_text("Delete 20 records")
    await newcomer.step("List as Grace")
    await newcomer.done(16)
    await expect(newcomer.guide).to_contain_text("signoff demo --agents my_agents")


async def test_the_printed_commands_run(newcomer: Newcomer) -> None:
    """What the terminal shows is run as it stands, by a shell: a program asks, and an operator looks."""
    demo = newcomer.demo
    from signoff_demo.run import _commands  # noqa: PLC0415

    _, ask, look, log = _commands(demo, await demo.new_key())
    asking = await asyncio.create_subprocess_shell(ask, stdout=asyncio.subprocess.PIPE)
    card = newcomer.page.locator("#messages article", has_text="Delete 50 records")
    await newcomer.page.locator('button[data-channel="C0REVIEW"]').click()
    await newcomer.page.locator('[data-person="U0GRACE"]').click()
    await card.get_by_role("button", name="Approve: ").click()
    await newcomer.page.locator("#confirm-yes").click()
    said, _ = await asking.communicate()
    assert b"Deleted 50 records from users" in said
    looking = await asyncio.create_subprocess_shell(f"COLUMNS=200 {look}", stdout=asyncio.subprocess.PIPE)
    seen, _ = await looking.communicate()
    assert looking.returncode == 0
    assert b"Delete 50 records" in seen
    reading = await asyncio.create_subprocess_shell(
        log.replace("tail -f", "tail"), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await reading.communicate()
    assert output
