"""Several requests decided in one form of the inbox page, in a browser: by keyboard, on a phone, without scripts."""

from __future__ import annotations

from typing import Any

import pytest

# Without the extra, collecting this file must not fail; these imports therefore stand below the check.
pytest.importorskip("playwright", reason="the browser tests need the extra `e2e`: run `make e2e`")
from tests.e2e.test_inbox import Desk, actors, look, plain_desk
from tests.e2e.test_page import browser
from tests.integration.service.conftest import http_house

from playwright.async_api import Locator, expect  # isort: skip

__all__ = ["actors", "browser", "http_house", "plain_desk"]

pytestmark = pytest.mark.e2e


async def several(desk: Desk, count: int) -> None:
    for order in range(1, count + 1):
        await desk.porch.asked(order, description=f"Refund order {order}", facts={"price": 100 + order})


async def tab_to(wanted: Locator) -> None:
    """Press Tab until it has the focus, where it can be seen."""
    for _ in range(100):
        if await wanted.evaluate("element => element === document.activeElement"):
            break
        await wanted.page.keyboard.press("Tab")
    await expect(wanted).to_be_focused()
    await expect(wanted).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
async def test_by_keyboard(actors: Desk, width: int, scheme: Any) -> None:
    """Rows are ticked, the form is filled in and sent with Tab, Space and Enter alone; no page has a finding, and all
    fit. What is missing is said where it can be seen.
    """
    page = actors.page
    await page.emulate_media(color_scheme=scheme)
    await page.set_viewport_size({"width": width, "height": 820})
    await several(actors, 3)
    await actors.sign_in()
    boxes = page.get_by_role("checkbox")
    await expect(boxes).to_have_count(3)
    for at in (0, 2):
        await tab_to(boxes.nth(at))
        await page.keyboard.press("Space")
    await look(actors)
    await tab_to(page.get_by_role("button", name="Decide together"))
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Decide together")).to_be_visible()
    await expect(page.get_by_role("checkbox")).to_have_count(2)
    await look(actors)
    await tab_to(page.get_by_role("checkbox").last)
    await page.keyboard.press("Space")
    await tab_to(page.get_by_role("button", name="Record"))
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_have_text("Choose what you decide.")
    await expect(page.get_by_role("alert")).to_be_in_viewport()
    await look(actors)
    await tab_to(page.get_by_label("Approve", exact=True))
    await page.keyboard.press("Space")
    await page.keyboard.press("Enter")
    await expect(page.locator("#outcome")).to_contain_text("1 of 1 approved.")
    await look(actors)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
async def test_reports_of_what_came_together(actors: Desk, width: int, scheme: Any) -> None:
    """The comparison of decisions together and alone has no finding, and fits."""
    page = actors.page
    await page.emulate_media(color_scheme=scheme)
    await page.set_viewport_size({"width": width, "height": 820})
    await several(actors, 2)
    await actors.sign_in()
    await page.get_by_role("button", name="Decide together").click()
    await page.get_by_label("Reject", exact=True).check()
    await page.get_by_role("button", name="Record").click()
    await expect(page.locator("#outcome")).to_contain_text("2 of 2 rejected.")
    await page.goto(f"{actors.base}/inbox/reports?days=7#together")
    await expect(page.get_by_role("heading", name="Together and alone")).to_be_in_viewport()
    await expect(page.get_by_role("table", name="Decisions together and alone")).to_be_visible()
    await look(actors)


async def test_without_scripts(plain_desk: Desk) -> None:
    """Ticks, form and outcome need none; what is ticked is counted beside the button, which stays in sight."""
    page = plain_desk.page
    await page.set_viewport_size({"width": 390, "height": 640})
    await several(plain_desk, 8)
    await plain_desk.sign_in()
    button = page.get_by_role("button", name="Decide together")
    await expect(button).not_to_be_in_viewport()
    for order in (1, 2):
        await page.get_by_label(f"Decide with others: Refund order {order}").check()
    await expect(button).to_be_in_viewport(ratio=1)
    counted = "element => getComputedStyle(element, '::before').content"
    assert "counter(ticked)" in await page.locator(".together .hint").evaluate(counted)
    await button.click()
    await expect(page.get_by_role("checkbox")).to_have_count(2)
    await page.get_by_label("Approve", exact=True).check()
    await page.get_by_role("button", name="Record").click()
    await expect(page.locator("#outcome")).to_contain_text("2 of 2 approved.")
    await page.get_by_role("link", name="Back to the inbox").click()
    await expect(page.locator("#for-you")).to_contain_text("6")


async def test_a_ticked_row_stays_ticked(actors: Desk) -> None:
    """When the open list changes, what is ticked stays ticked."""
    await several(actors, 2)
    await actors.sign_in()
    box = actors.page.get_by_label("Decide with others: Refund order 1")
    await box.check()
    await actors.porch.asked(3, description="Refund order 3", facts={"price": 1})
    await expect(actors.page.locator(".row .open", has_text="Refund order 3")).to_be_visible(timeout=15_000)
    await expect(box).to_be_checked()
    await expect(actors.page.get_by_label("Decide with others: Refund order 3")).not_to_be_checked()
