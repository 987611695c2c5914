"""Questions that want more than yes or no, answered in a real browser: in the sandbox's Slack and on the page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from signoff import ask, function_agent
from signoff_demo.examples.questions import deployment, supplies

# Without the extra, collecting this file must not fail; these imports therefore stand below the check.
pytest.importorskip("playwright", reason="the browser tests need the extra `e2e`: run `make e2e`")
from tests.e2e.test_page import browser  # noqa: F401
from tests.integration.service.conftest import DELETIONS, House, http_house  # noqa: F401
from tests.integration.web.visiting import Porch, open_porch

from axe_playwright_python.async_playwright import Axe  # isort: skip
from playwright.async_api import Browser, BrowserContext, Locator, Page, expect  # isort: skip

pytestmark = pytest.mark.e2e

PATIENCE_MS = 15_000
COUNTRIES = [f"Country {number}" for number in range(1, 13)]
ROOMS = [f"Room {number}" for number in range(1, 13)]
FORM = {
    "type": "object",
    "properties": {
        "why": {"type": "string", "title": "Why?", "description": "In a sentence or two."},
        "code": {"type": "string", "title": "Cost centre", "maxLength": 20},
        "count": {"type": "integer", "title": "How many?", "minimum": 1, "maximum": 10},
        "price": {"type": "number", "title": "Price"},
        "size": {"enum": ["Small", "Medium", "Large"], "title": "Size"},
        "country": {"enum": COUNTRIES, "title": "Country"},
        "colours": {"type": "array", "items": {"enum": ["Red", "Blue", "Green"]}, "title": "Colours"},
        "rooms": {"type": "array", "items": {"enum": ROOMS}, "title": "Rooms"},
        "owner": {"type": "string", "format": "slack-user", "title": "Whom is it for?"},
        "by": {"type": "string", "format": "date", "title": "Needed by"},
    },
    "required": ["why", "count", "size"],
}
GIVEN: dict[str, Any] = {
    "why": "The old one\nis broken.",
    "code": "DE-1042",
    "count": 3,
    "price": 19.5,
    "size": "Medium",
    "country": "Country 11",
    "colours": ["Red", "Green"],
    "rooms": ["Room 2", "Room 12"],
    "owner": "U0LINUS",
    "by": "2027-01-31",
}


@function_agent(name="every-kind")
async def every_kind(task: str) -> str:
    """Asks for a field of each kind."""
    return str((await ask("What for the office in Lisbon?", form=FORM)).value)


@dataclass
class Desk:
    """A browser before the sandbox and the inbox page of one service."""

    porch: Porch
    context: BrowserContext
    slack: Page
    complaints: list[str]

    @property
    def house(self) -> House:
        return self.porch.house

    async def asked(self, agent: str, words: str) -> Locator:
        """Ada starts the agent; the card, as Grace sees it."""
        await self.house.ask("U0ADA", "something", agent)
        await self.slack.goto(f"{self.house.slack.url}/#channel=C0REVIEW&user=U0GRACE")
        card = self.slack.locator("#messages article", has_text=words)
        await expect(card.get_by_role("button", name="Details: ")).to_be_visible()
        return card

    async def form(self, agent: str, words: str) -> Page:
        """Grace signs in to the inbox, and follows the row's Answer to the form."""
        await self.house.ask("U0ADA", "something", agent)
        await self.house.card()
        page = await self.context.new_page()
        await page.goto(f"http://127.0.0.1:{self.porch.service.port}{await self.porch.link('U0GRACE')}")
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("link", name=f"Answer …: {words}").click()
        await expect(page.locator("#what")).to_contain_text(words)
        return page

    async def answer_is(self, *values: Any) -> None:
        stored = await self.house.column("SELECT convert_from(value, 'UTF8')::jsonb FROM answer")
        assert stored == list(values)


async def _desk(browser: Browser, house: House, **options: Any) -> AsyncIterator[Desk]:  # noqa: F811
    policy = DELETIONS.replace("[[checkpoint]]", 'unmatched = "review"\n\n[[checkpoint]]')
    porch = await open_porch(
        house, [deployment, supplies, every_kind], policy, SIGNOFF_ROLES="web,worker,scheduler"
    )
    context = await browser.new_context(
        viewport={"width": 1180, "height": 860}, reduced_motion="reduce", **options
    )
    context.set_default_timeout(PATIENCE_MS)
    complaints: list[str] = []
    context.on("weberror", lambda error: complaints.append(str(error.error)))
    yield Desk(porch, context, await context.new_page(), complaints)
    await context.close()
    for visitor in porch.visitors:
        await visitor.aclose()
    assert complaints == []


@pytest_asyncio.fixture
async def desk(browser: Browser, http_house: House) -> AsyncIterator[Desk]:  # noqa: F811
    async for made in _desk(browser, http_house):
        yield made


@pytest_asyncio.fixture
async def plain_desk(browser: Browser, http_house: House) -> AsyncIterator[Desk]:  # noqa: F811
    """A browser without JavaScript."""
    async for made in _desk(browser, http_house, java_script_enabled=False):
        yield made


async def is_accessible(page: Page) -> None:
    """axe-core's findings in light and dark, on a wide page and a narrow one, and whether it fits."""
    for width in (1180, 390):
        await page.set_viewport_size({"width": width, "height": 860})
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme)
            found = await Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_one_press_answers(desk: Desk) -> None:
    """Short options are buttons on the card; one press is the answer, and the agent goes on with it."""
    card = await desk.asked("deployment", "Which region?")
    await is_accessible(desk.slack)
    await card.get_by_role("button", name="United States: ").click()
    await expect(card).to_contain_text("Answered by @grace")
    await expect(card.get_by_role("button", name="United States: ")).to_have_count(0)
    await desk.house.says("United States it is")


async def test_own_words_in_the_modal(desk: Desk) -> None:
    """*Something else…* takes own words or an option, and says so where both are given."""
    card = await desk.asked("deployment", "Which region?")
    await card.get_by_role("button", name="Something else…: ").click()
    form = desk.slack.get_by_role("dialog", name="Answer")
    await form.get_by_label("Asia").check()
    await form.get_by_label("Or something else, in your own words").fill("Both Americas")
    await is_accessible(desk.slack)
    await form.get_by_role("button", name="Answer", exact=True).click()
    await expect(form).to_contain_text("not both")
    await desk.answer_is()
    await form.get_by_role("button", name="Cancel").click()
    await card.get_by_role("button", name="Something else…: ").click()
    await form.get_by_label("Or something else, in your own words").fill("Both Americas")
    await form.get_by_role("button", name="Answer", exact=True).click()
    await expect(card).to_contain_text("Both Americas")
    await desk.house.says("Both Americas it is")


async def test_every_kind_of_field_in_the_modal(desk: Desk) -> None:
    """Each kind of input can be filled in; a value that does not fit is marked at its field, with the rest kept."""
    card = await desk.asked("every-kind", "Lisbon")
    await card.get_by_role("button", name="Answer…: ").click()
    form = desk.slack.get_by_role("dialog", name="Answer")
    await form.get_by_label("Why?").fill(GIVEN["why"])
    await form.get_by_label("Cost centre").fill("DE-1042")
    await form.get_by_label("How many?").fill("11")
    await form.get_by_label("Price").fill("19.5")
    await form.get_by_label("Medium").check()
    await form.get_by_label("Country").select_option("Country 11")
    await form.get_by_label("Red").check()
    await form.get_by_label("Green").check()
    await form.get_by_label("Rooms").select_option(GIVEN["rooms"])
    await form.get_by_label("Whom is it for?").select_option(label="Linus Pauling")
    await form.get_by_label("Needed by").fill("2027-01-31")
    await is_accessible(desk.slack)
    await form.get_by_role("button", name="Answer", exact=True).click()
    await expect(form).to_contain_text("This must be at most 10.")
    await form.get_by_label("How many?").fill("3")
    await form.get_by_role("button", name="Answer", exact=True).click()
    await expect(form).to_be_hidden()
    await expect(card).to_contain_text("Whom is it for? @linus")
    one_line = GIVEN["why"].replace("\n", " ⏎ ")  # so that it cannot look like a line of ours
    assert one_line in await card.inner_text()
    await desk.house.says("'code': 'DE-1042'")
    await desk.answer_is(GIVEN)


async def fill_in(page: Page) -> None:
    """The page's form of every kind of field."""
    form = page.locator("#answer")
    await form.get_by_label("Why?").fill(GIVEN["why"])
    await form.get_by_label("Cost centre").fill("DE-1042")
    await form.get_by_label("How many?").fill("11")
    await form.get_by_label("Price").fill("19.5")
    await form.get_by_label("Medium").check()
    await form.get_by_label("Country").select_option("Country 11")
    await form.get_by_role("group", name="Colours").get_by_label("Red").check()
    await form.get_by_role("group", name="Colours").get_by_label("Green").check()
    for each in GIVEN["rooms"]:
        await form.get_by_role("group", name="Rooms").get_by_label(each, exact=True).check()
    await form.get_by_label("Whom is it for?").fill("U0LINUS")
    await form.get_by_label("Needed by").fill("2027-01-31")


async def test_the_page_has_the_same_form(desk: Desk) -> None:
    """An inbox row leads to the form; what does not fit is marked with the rest kept, and then it is the answer."""
    page = await desk.form("every-kind", "What for the office in Lisbon?")
    await is_accessible(page)
    await fill_in(page)
    await page.get_by_role("button", name="Answer", exact=True).click()
    await expect(page.get_by_label("How many?")).to_have_attribute("aria-invalid", "true")
    await expect(page.get_by_label("How many?")).to_have_accessible_description("This must be at most 10.")
    await expect(page.get_by_label("Country")).to_have_value("10")
    await is_accessible(page)
    await page.get_by_label("How many?").fill("3")
    await page.get_by_role("button", name="Answer", exact=True).click()
    await expect(page.locator("#state")).to_contain_text("Answered by @grace")
    await expect(page.locator("#state")).to_contain_text("@linus")
    await is_accessible(page)
    await desk.answer_is(GIVEN)


async def test_the_page_without_a_script(plain_desk: Desk) -> None:
    """Plain forms carry own words, and a form, to the answer."""
    page = await plain_desk.form("deployment", "Which region?")
    await page.get_by_label("Or something else, in your own words").fill("Both Americas")
    await page.get_by_role("button", name="Answer", exact=True).click()
    await expect(page.locator("#state")).to_contain_text("Both Americas")
    page = await plain_desk.form("every-kind", "What for the office in Lisbon?")
    await fill_in(page)
    await page.get_by_label("How many?").fill("3")
    await page.get_by_role("button", name="Answer", exact=True).click()
    await expect(page.locator("#state")).to_contain_text("Answered by @grace")
    await plain_desk.house.says("'code': 'DE-1042'")
