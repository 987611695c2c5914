"""The documentation as `make docs` leaves it, opened from the file system in a real browser."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="the browser tests need the extra `e2e`: run `make e2e`")
from playwright.async_api import async_playwright, expect

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=True,
        timeout=180,
    )
    return tmp_path


async def test_search_finds_a_page_without_a_server(site: Path) -> None:
    """Somebody who opens the built site as files finds a page by a word; nothing is loaded from elsewhere."""
    loaded: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome"), args=["--no-sandbox"]
        )
        page = await browser.new_page()
        page.on("request", lambda request: loaded.append(request.url))
        await page.goto((site / "index.html").as_uri())
        await page.get_by_role("textbox", name="Search").press_sequentially("floods folded")
        await page.locator(".md-search-result").get_by_text("Floods are folded").first.click()
        await expect(page.get_by_role("heading", name="Floods are folded")).to_be_visible()
        await browser.close()
    assert [each for each in loaded if each.startswith("http")] == []
