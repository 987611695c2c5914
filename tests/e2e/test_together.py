"""Several requests decided in one form of the inbox page, in a real browser: by keyboard, and on a phone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.test_inbox import Desk, actors, look
from tests.e2e.test_page import browser
from tests.integration.service.conftest import http_house

from playwright.async_api import expect  # isort: skip

__all__ = ["actors", "browser", "http_house"]

pytestmark = pytest.mark.e2e


async def several(desk: Desk, count: int) -> None:
    for order in range(1, count + 1):
        await desk.porch.asked(order, description=f"Refund order {order}", facts={"price": 100 + order})


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
async def test_by_keyboard(actors: Desk, width: int, scheme: Any) -> None:
    """Rows are ticked, the form is filled in and sent by keyboard alone; no page has a finding, and all fit."""
    page = actors.page
    await page.emulate_media(color_scheme=scheme)
    await page.set_viewport_size({"width": width, "height": 820})
    await several(actors, 3)
    await actors.sign_in()
    boxes = page.get_by_role("checkbox")
    await expect(boxes).to_have_count(3)
    for at in (0, 2):
        await boxes.nth(at).focus()
        await page.keyboard.press("Space")
    await look(actors)
    await page.get_by_role("button", name="Decide together").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Decide together")).to_be_visible()
    await expect(page.get_by_role("checkbox")).to_have_count(2)
    await look(actors)
    await page.get_by_role("button", name="Record").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_have_text("Choose what you decide.")
    await look(actors)
    await page.get_by_role("checkbox").last.focus()
    await page.keyboard.press("Space")
    await page.get_by_label("Approve", exact=True).focus()
    await page.keyboard.press("Space")
    await page.keyboard.press("Enter")
    await expect(page.locator("#outcome")).to_contain_text("1 of 1 approved.")
    await look(actors)


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
