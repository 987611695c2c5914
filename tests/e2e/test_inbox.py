"""The inbox page in a real browser, with a running service: all paths of a person without Slack."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

# Without the extra `e2e`, this import skips the file, as it skips that one.
from tests.e2e.test_page import browser  # noqa: F401
from tests.integration.service.conftest import DELETIONS, House, http_house, until  # noqa: F401
from tests.integration.web.visiting import Porch, data_agent, open_porch

from axe_playwright_python.async_playwright import Axe  # isort: skip
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, expect  # isort: skip
from playwright.async_api import TimeoutError as PlaywrightTimeoutError  # isort: skip

pytestmark = pytest.mark.e2e

PATIENCE_MS = 15_000

POLICY = (
    DELETIONS
    + """reject_reasons = ["Wrong table", "Not now"]
reason_required = ["reject"]
risk = "high"
on_reject = "stop"
allow_edit = true
editor_may_approve = true
"""
)


@dataclass
class Desk:
    """A browser in which somebody is signed in, and the service behind it."""

    porch: Porch
    context: BrowserContext
    page: Page
    complaints: list[str]

    @property
    def house(self) -> House:
        return self.porch.house

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.porch.service.port}"

    async def sign_in(self, user: str = "U0GRACE") -> None:
        await self.page.goto(self.base + await self.porch.link(user))
        try:
            await self.page.get_by_role("button", name="Sign in").click()
        except PlaywrightTimeoutError as error:
            said = await self.page.locator("body").inner_text()
            raise AssertionError(f"no button to sign in at {self.page.url}:\n{said}") from error
        await expect(self.page.get_by_role("heading", name="Waiting for you")).to_be_visible()

    async def ask(self, table: str, count: int) -> None:
        await self.house.ask("U0ADA", f"please delete_records table_name={table} count={count}")

    async def open(self, words: str) -> None:
        link = self.page.locator(".row .open", has_text=words)
        await expect(link).to_be_visible(timeout=PATIENCE_MS)
        await link.click()
        await expect(self.page.locator("#what")).to_contain_text(words)

    async def approve(self) -> None:
        await self.page.get_by_label("Yes, I have read it").check()
        await self.page.get_by_role("button", name="Approve", exact=True).click()

    async def says(self, words: str, within_ms: int = PATIENCE_MS) -> None:
        await expect(self.page.locator("#state")).to_contain_text(words, timeout=within_ms)


def _matters(said: ConsoleMessage) -> bool:
    """An error of the page; an answer that is no 200 is reported by the browser itself, and expected where it comes."""
    return said.type == "error" and "the server responded with a status of" not in said.text


async def _desk(browser: Browser, house: House, **options: Any) -> AsyncIterator[Desk]:  # noqa: F811
    porch = await open_porch(house, [data_agent()], POLICY, SIGNOFF_ROLES="web,worker,scheduler")
    context = await browser.new_context(viewport={"width": 1180, "height": 820}, **options)
    context.set_default_timeout(PATIENCE_MS)
    page, complaints = await context.new_page(), []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if _matters(said) else None)
    yield Desk(porch, context, page, complaints)
    await context.close()
    for visitor in porch.visitors:
        await visitor.aclose()


@pytest_asyncio.fixture
async def actors(browser: Browser, http_house: House) -> AsyncIterator[Desk]:  # noqa: F811
    """A browser with all comforts; anything that it complains about, a blocked script or style say, fails the test."""
    async for made in _desk(browser, http_house):
        yield made
        assert made.complaints == []


@pytest_asyncio.fixture
async def plain_desk(browser: Browser, http_house: House) -> AsyncIterator[Desk]:  # noqa: F811
    """A browser without JavaScript."""
    async for made in _desk(browser, http_house, java_script_enabled=False):
        yield made


async def test_approve_resumes_the_agent(actors: Desk) -> None:
    """A waiting request comes up on the open page with its description; approving it runs the tool within seconds."""
    await actors.sign_in()
    await actors.ask("users", 50)
    await actors.open("Delete 50 records from “users”")
    await actors.page.get_by_role("button", name="Approve", exact=True).click()
    await expect(actors.page.get_by_label("Yes, I have read it")).to_be_focused()  # the browser insists
    await actors.approve()
    await actors.says("Approved by @grace")
    await actors.says("Done", 5_000)
    await actors.house.shows("SELECT status::text FROM agent_run", "completed")


async def test_reject_ends_the_run_with_the_reason(actors: Desk) -> None:
    """A rejection with a chosen reason and own words ends the run as denied, and the page shows the words."""
    await actors.sign_in()
    await actors.ask("orders", 7)
    await actors.open("Delete 7 records from “orders”")
    await actors.page.get_by_role("button", name="Reject", exact=True).click()
    await expect(actors.page.get_by_role("alert")).to_contain_text("reason")
    await actors.page.get_by_label("Wrong table").check()
    await actors.page.get_by_label("In your own words").fill("It is the archive that is meant.")
    await actors.page.get_by_role("button", name="Reject", exact=True).click()
    await actors.says("Wrong table: It is the archive that is meant.")
    await actors.house.shows("SELECT status::text FROM agent_run", "denied")


async def test_edit_then_approve(actors: Desk) -> None:
    """An edit is shown as a change, has to be approved again, and is what runs."""
    await actors.sign_in()
    await actors.ask("users", 50)
    await actors.open("Delete 50 records from “users”")
    await actors.page.get_by_text("Edit, then decide").click()
    await actors.page.get_by_label("count").fill("5")
    await actors.page.get_by_role("button", name="Save the changes").click()
    await expect(actors.page.locator("#what")).to_contain_text("Delete 5 records from “users”")
    await expect(actors.page.locator("#content ins")).to_have_text("5")
    await actors.approve()
    await actors.says("Done")
    (answer,) = await actors.house.column("SELECT answer FROM tool_call")
    assert "Deleted 5 records" in answer


async def test_keyboard_alone(actors: Desk) -> None:
    """With the keyboard alone one finds, opens and approves a request; "?" lists the keys."""
    await actors.sign_in()
    await actors.ask("users", 1)
    await expect(actors.page.locator(".row .open")).to_have_count(1, timeout=PATIENCE_MS)
    press = actors.page.keyboard.press
    await press("?")
    await expect(actors.page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    await press("Escape")
    await press("j")
    await expect(actors.page.locator(".row .open")).to_be_focused()
    await press("Enter")
    await expect(actors.page.locator("#what")).to_contain_text("Delete 1 records")
    await press("r")
    await expect(actors.page.get_by_label("Wrong table")).to_be_focused()
    await press("a")
    await expect(actors.page.get_by_label("Yes, I have read it")).to_be_focused()
    await press("Space")
    await press("Tab")
    await press("Enter")
    await actors.says("Approved by @grace")
    await expect(actors.page.locator("#next")).to_be_focused()
    await press("u")
    await expect(actors.page.get_by_text("Nothing waits for you.").first).to_be_visible()


async def test_a_row_decides_with_the_keyboard_alone(actors: Desk) -> None:
    """Tab leads from a row to its Approve, and on to its Reject, which count at once and say so."""
    await actors.sign_in()
    await actors.porch.asked(7)
    await actors.porch.asked(8)
    count = actors.page.locator("#for-you .count")
    await expect(count).to_have_text("2", timeout=PATIENCE_MS)
    await actors.page.goto(f"{actors.base}/inbox")
    press = actors.page.keyboard.press
    await press("j")
    await press("Tab")
    approve = actors.page.get_by_role("button", name="Approve: ")
    await expect(approve.first).to_be_focused()
    await expect(approve.first).to_have_accessible_name("Approve: Refund 1500 for order 7")
    await press("Enter")
    await expect(actors.page.locator("#done")).to_have_text("Approved: Refund 1500 for order 7")
    await expect(count).to_have_text("1")
    await expect(actors.page.locator(".row .open").first).to_be_focused()  # the row that took its place
    await press("Tab")
    await press("Tab")
    await press("Enter")
    await expect(actors.page.locator("#done")).to_have_text("Rejected: Refund 1500 for order 8")


async def test_from_one_request_to_the_next(actors: Desk) -> None:
    """High risk leads from its row to the tick; after the decision Next leads on, and counts what is left."""
    await actors.sign_in()
    await actors.ask("users", 50)
    await actors.ask("orders", 7)
    await actors.page.goto(f"{actors.base}/inbox")
    row = actors.page.locator(".row", has_text="“users”")
    await row.get_by_role("link", name="Approve …").click(timeout=PATIENCE_MS)
    await expect(actors.page.get_by_label("Yes, I have read it")).to_be_focused()
    await actors.approve()
    await actors.says("Approved by @grace")
    await expect(actors.page.get_by_role("link", name="Next (1 left)")).to_be_focused()
    await actors.page.keyboard.press("n")
    await expect(actors.page.locator("#what")).to_contain_text("“orders”")
    await actors.page.get_by_role("link", name="‹ Inbox").click()
    await expect(actors.page.locator(".row .open").first).to_be_focused()


async def test_the_list_returns_to_the_row_that_was_opened(actors: Desk) -> None:
    """Not to its top: who looks at one request after the other goes on from there."""
    await actors.sign_in()
    for table in ("users", "orders", "logs"):
        await actors.ask(table, 5)
    await expect(actors.page.locator(".row .open")).to_have_count(3, timeout=PATIENCE_MS)
    await actors.open("“orders”")
    await actors.page.get_by_role("link", name="‹ Inbox").click()
    await expect(actors.page.locator(".row .open", has_text="“orders”")).to_be_focused()


async def test_long_lists_are_counted_after_the_page(actors: Desk) -> None:
    """A heading that began with 200+ has the exact number a moment later, and keeps it when the lists change."""
    await actors.porch.multiply(await actors.porch.asked(7))
    await actors.sign_in()
    heading = actors.page.get_by_role("heading", name="Waiting for you")
    await expect(heading).to_have_text("Waiting for you 1,001")
    async with actors.page.expect_response("**/inbox/waiting*"):
        await actors.porch.asked(8)
    await expect(heading).to_have_text("Waiting for you 1,001")
    await actors.page.reload()
    await expect(heading).to_have_text("Waiting for you 1,002")


async def test_what_is_typed_into_the_filters_narrows_the_lists(plain_desk: Desk) -> None:
    """Filters, order and search are plain forms, which a page without scripts sends just as well."""
    await plain_desk.porch.asked(7)
    await plain_desk.ask("users", 50)
    await plain_desk.house.card(1)
    await plain_desk.sign_in()
    page = plain_desk.page
    await expect(page.locator(".row .open")).to_have_count(2)
    await page.get_by_text("Filter and sort").click()
    await page.get_by_label("Risk").select_option("High")
    await page.get_by_label("Order", exact=True).select_option("Deadline first")
    await page.get_by_role("button", name="Show").click()
    await expect(page.locator(".row .open")).to_have_text("Delete 50 records from “users”")
    await expect(page.get_by_label("Risk")).to_have_value("high")
    await page.get_by_role("link", name="Clear").click()
    await expect(page.locator(".row .open")).to_have_count(2)


async def test_the_history_is_narrowed_and_downloaded(actors: Desk) -> None:
    """Its filters leave what they name; Download CSV has the same rows."""
    await actors.sign_in()
    for table, button in (("users", "approve"), ("orders", "reject")):
        await actors.ask(table, 5)
        await actors.open(f"“{table}”")
        if button == "approve":
            await actors.approve()
            await actors.says("Done")
        else:
            await actors.page.get_by_label("Not now").check()
            await actors.page.get_by_role("button", name="Reject", exact=True).click()
            await actors.says("Rejected by @grace")
        await actors.page.goto(f"{actors.base}/inbox")
    await actors.page.goto(f"{actors.base}/inbox/history")
    rows = actors.page.locator(".row .open")
    await expect(rows).to_have_count(2)
    await actors.page.get_by_label("Status").select_option("Rejected")
    await actors.page.get_by_label("Decided by").select_option("U0GRACE")
    await actors.page.get_by_role("button", name="Show").click()
    await expect(rows).to_have_text(["Delete 5 records from “orders”"])
    await expect(actors.page.get_by_label("Status")).to_have_value("rejected")
    async with actors.page.expect_download() as started:
        await actors.page.get_by_role("link", name="Download CSV").click()
    path = await (await started.value).path()
    table = path.read_text(encoding="utf-8-sig")
    assert "orders" in table
    assert "users" not in table


async def test_a_phone_shows_the_history_before_its_filters(plain_desk: Desk) -> None:
    """On a phone the first row is high on the page, until a filter is set; a wide screen shows all filters."""
    await plain_desk.porch.asked(7)
    await plain_desk.sign_in()
    page, status = plain_desk.page, plain_desk.page.get_by_label("Status")

    async def finds_it() -> bool:
        """The sweep that stores words for searches may be a moment later."""
        await page.goto(f"{plain_desk.base}/inbox/history?q=refund")
        return await page.locator(".row .open").count() == 1

    await until(finds_it)
    await expect(status).to_be_visible()
    await expect(page.get_by_text("Filter and sort")).to_be_hidden()
    await page.set_viewport_size({"width": 390, "height": 820})
    await expect(status).to_be_hidden()
    box = await page.locator(".row .open").first.bounding_box()
    assert box is not None
    assert box["y"] < 400, box
    await page.get_by_text("Filter and sort").click()
    await status.select_option("Waiting")
    await page.get_by_role("button", name="Show").click()
    await expect(page.locator(".row .open")).to_have_count(1)
    await expect(status).to_have_value("waiting")


async def test_an_agent_is_started_and_cancelled_on_the_page(actors: Desk) -> None:
    """What is typed on the page of runs starts an agent; its own page ends it, and takes back what it asked."""
    await actors.sign_in("U0ADA")
    await actors.page.goto(f"{actors.base}/inbox/runs")
    await actors.page.get_by_text("Start an agent").click()
    await look(actors)
    await actors.page.locator("#agent").select_option("data")
    await actors.page.get_by_label("Task").fill("please delete_records table_name=users count=50")
    await actors.page.get_by_role("button", name="Start").click()
    await actors.says("Waiting for review")
    await actors.page.get_by_text("Cancel this run").click()
    await look(actors)
    await actors.page.get_by_role("button", name="Cancel the run").click()
    await actors.says("Cancelled")


async def test_a_decision_in_slack_is_seen_on_open_pages(actors: Desk) -> None:
    """Both pages show it without a reload; the form disappears, and the text typed into it can still be copied."""
    await actors.sign_in()
    await actors.ask("users", 50)
    await actors.open("Delete 50 records from “users”")
    await actors.page.get_by_label("In your own words").fill("Not <b>before</b> the audit.")
    inbox = await actors.context.new_page()
    await inbox.goto(f"{actors.base}/inbox")
    await expect(inbox.locator("#for-you .count")).to_have_text("1")
    card = await actors.house.card()
    assert (await actors.house.slack.person("U0LINUS").click(card, "signoff:approve")).error is None
    await expect(inbox.get_by_text("Nothing waits for you.").first).to_be_visible(timeout=5_000)
    await expect(inbox.locator("#news")).to_have_text("Nothing waits for you.")
    await expect(inbox.get_by_text("by @linus")).to_be_visible()
    await actors.page.bring_to_front()
    await actors.says("Approved by @linus", 5_000)
    await expect(actors.page.get_by_role("button", name="Approve", exact=True)).to_have_count(0)
    await expect(actors.page.locator("#decide blockquote")).to_have_text("Not <b>before</b> the audit.")


async def test_without_a_script_everything_still_works(plain_desk: Desk) -> None:
    """Plain links and forms carry the whole way from the sign-in to a decision."""
    await plain_desk.ask("users", 50)
    await plain_desk.house.card()
    await plain_desk.sign_in()
    await plain_desk.open("Delete 50 records from “users”")
    await plain_desk.approve()
    await plain_desk.says("Approved by @grace")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1180, 360])
async def test_every_page_is_accessible_and_fits(actors: Desk, scheme: Any, width: int) -> None:
    """No page has a serious finding of axe-core, in light and dark, and none is wider than a phone."""
    await actors.page.emulate_media(color_scheme=scheme)
    await actors.page.set_viewport_size({"width": width, "height": 820})
    link = await actors.porch.link("U0GRACE")
    await actors.page.goto(actors.base + link)
    await look(actors)
    await actors.page.get_by_role("button", name="Sign in").click()
    await actors.ask("users", 50)
    await actors.ask("orders_archive", 48_211)
    await actors.open("Delete 50 records from “users”")
    await actors.page.get_by_label("Not now").check()
    await actors.page.get_by_label("In your own words").fill("After the audit.")
    await actors.page.get_by_role("button", name="Reject", exact=True).click()
    await actors.says("Rejected by @grace")
    await look(actors)
    await actors.page.goto(f"{actors.base}/inbox")
    await expect(actors.page.locator(".row .open")).to_have_count(2, timeout=PATIENCE_MS)
    await look(actors)
    await actors.open("Delete 48211 records")
    await actors.page.get_by_text("Edit, then decide").click()
    await look(actors)
    for path in ("/inbox/history", "/inbox/runs", "/inbox/grants", "/inbox/reports", "/inbox/nothing"):
        await actors.page.goto(actors.base + path)
        await look(actors)
        if path == "/inbox/runs":
            await actors.page.locator(".row .open").first.click()
            await look(actors)


async def look(actors: Desk) -> None:
    """axe-core's findings on the page as it is now, and its width."""
    found = await Axe().run(actors.page)
    serious = [each for each in found.response["violations"] if each["impact"] in ("serious", "critical")]
    assert serious == [], [(each["id"], [node["html"] for node in each["nodes"]]) for each in serious]
    assert await actors.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), actors.page.url
