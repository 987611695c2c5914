"""`make pictures`: the documentation's pictures, one of them animated, taken from the running demo.

People act in the browser, as in the tour. Cards have emoji (⏳, ✅), so an emoji font has to be installed:
`fonts-noto-color-emoji` on Debian, which `fc-list` of `fontconfig` finds.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from PIL import Image

from signoff_demo import guided_policy, guided_scenes, rules
from signoff_demo.environment import DemoEnvironment, open_environment
from signoff_demo.sandbox import demo_workspace
from signoff_demo.workdir import claim_workdir

from playwright.async_api import Browser, Locator, Page, async_playwright, expect  # isort: skip

ADA, GRACE, LINUS = "U0ADA", "U0GRACE", "U0LINUS"
PATIENCE_MS = 20_000
EXPIRES = 3600
"""Seconds until the largest refund of the tour expires: longer than the pictures take."""
WIDTH, HEIGHT = 1180, 860
FILM_WIDTH = 900
"""Pixels; the largest width in the README."""
FILM_QUALITY = 70
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


async def take(folder: Path) -> None:
    browser_path = _installed()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        async with _demo() as demo:
            await demo.while_running(_film(browser, demo, folder))
        async with _demo() as demo:
            await demo.while_running(_slack(browser, demo, folder))
            await demo.while_running(_bounds(browser, demo, folder))
            await demo.while_running(_questions(browser, demo, folder))
            await demo.while_running(_together(browser, demo, folder))
            await demo.while_running(_inbox(browser, demo, folder))
        await browser.close()


@asynccontextmanager
async def _demo() -> AsyncIterator[DemoEnvironment]:
    with claim_workdir() as workdir:
        policy, workspace, panel = rules.tour_policy(EXPIRES), demo_workspace(), guided_scenes.for_refunds()
        rules.invite(policy.policy, workspace)
        async with open_environment(workdir, policy, workspace, panel, print, port=0) as demo:
            yield demo


async def _slack(browser: Browser, demo: DemoEnvironment, folder: Path) -> None:
    async with _page(browser, f"{demo.slack.url}/#channel=C0AGENTS&user={ADA}") as page:
        if await page.locator("#guide-close").is_visible():
            await page.locator("#guide-close").click()
        card = await _asked(page, 7)
        await _save(page, folder, "card-waiting")
        await card.get_by_role("button", name="Details: ").click()
        await expect(page.locator("#modal")).to_contain_text("please refund order 7")
        await _save(page.locator("#modal"), folder, "details")
        await page.keyboard.press("Escape")
        await _asked(page, 5)
        await page.locator("#open-home").click()
        home = page.locator("#home")
        await expect(home.get_by_role("button", name="Approve: ")).to_have_count(2)
        await home.get_by_role("button", name="Approve: ").first.click()
        await page.locator("#confirm-yes").click()
        await expect(home.get_by_role("button", name="Approve: ")).to_have_count(1)
        await expect(home).to_contain_text("Approved")
        await page.set_viewport_size({"width": WIDTH, "height": 760})
        await _save(page.locator("main"), folder, "home")


async def _bounds(browser: Browser, demo: DemoEnvironment, folder: Path) -> None:
    async with _page(browser, f"{demo.slack.url}/#channel=C0AGENTS&user={ADA}") as page:
        card = await _command(
            page, f"data_manager {guided_policy.TIDY.format(count=20)}", "Delete 20 records"
        )
        form = page.locator("#modal")
        await card.get_by_role("button", name="More…: ").click()
        await form.get_by_role("button", name="Approve and allow similar…").click()
        await form.get_by_label("args.count").fill("1 .. 100")
        await _save(form, folder, "grant-form")
        await form.get_by_role("button", name="Preview").click()
        await expect(form).to_contain_text("May differ")
        while await form.is_visible():  # one lies on the other
            before = await form.get_attribute("data-view")
            await page.keyboard.press("Escape")
            await expect(page.locator(f'#modal[open][data-view="{before}"]')).to_have_count(0)
        await page.locator('[data-channel="C0AGENTS"]').first.click()
        await page.locator(f'[data-person="{ADA}"]').click()
        await _type(page, "/agent run refunds list all orders")
        await expect(page.locator("#messages")).to_contain_text("Completed")
        card = await _command(page, "refunds list all orders", guided_policy.ORDERS)
        await _save(card, folder, "limit-card")


async def _questions(browser: Browser, demo: DemoEnvironment, folder: Path) -> None:
    async with _page(browser, f"{demo.slack.url}/#channel=C0AGENTS&user={ADA}") as page:
        card = await _command(page, f"deployment {guided_scenes.RELEASE}", guided_scenes.REGION)
        await _save(card, folder, "question-choice")
        await card.get_by_role("button", name="Europe").click()
        await expect(card).to_contain_text("Answered")
        await _save(card, folder, "question-answered")
        card = await _command(page, f"supplies {guided_scenes.DESK}", guided_scenes.SUPPLIES)
        await card.get_by_role("button", name="Answer…: ").click()
        await expect(page.locator("#modal")).to_contain_text("Answer")
        await _save(page.locator("#modal"), folder, "question-form")


async def _together(browser: Browser, demo: DemoEnvironment, folder: Path) -> None:
    async with _page(browser, f"{demo.slack.url}/#channel=C0AGENTS&user={ADA}") as page:
        await _type(page, guided_scenes.MANY)
        await page.locator('[data-channel="C0REVIEW"]').first.click()
        await page.locator(f'[data-person="{GRACE}"]').click()
        message = page.locator("#messages article", has_text="5 requests of").last
        await expect(message.get_by_role("button", name="Decide together…")).to_be_visible()
        await _save(message, folder, "group")
        await message.get_by_role("button", name="Decide together…").click()
        form = page.locator("#modal")
        await expect(form).to_contain_text("5 of 5")
        await page.set_viewport_size({"width": WIDTH, "height": 1100})
        await _save(form, folder, "decide-together")
        await form.get_by_role("checkbox").last.click()
        await form.get_by_label("Approve", exact=True).check()
        await form.get_by_role("button", name="Record").click()
        await expect(form).to_contain_text("4 of 4 approved")
        await page.keyboard.press("Escape")


@dataclass
class Film:
    """Each shot has a duration in seconds."""

    page: Page
    shots: list[tuple[Image.Image, float]] = field(default_factory=list)

    async def take(self, seconds: float) -> None:
        shown = Image.open(BytesIO(await self.page.screenshot(animations="disabled"))).convert("RGB")
        height = round(shown.height * FILM_WIDTH / shown.width)
        self.shots.append((shown.resize((FILM_WIDTH, height), Image.Resampling.LANCZOS), seconds))

    def save(self, path: Path) -> None:
        """WebP, in a loop."""
        (first, _), *rest = self.shots
        first.save(
            path,
            save_all=True,
            append_images=[shot for shot, _ in rest],
            duration=[round(seconds * 1000) for _, seconds in self.shots],
            loop=0,
            quality=FILM_QUALITY,
            method=6,
        )
        print(path)  # noqa: T201 - output of the command


async def _film(browser: Browser, demo: DemoEnvironment, folder: Path) -> None:
    async with _page(browser, f"{demo.slack.url}/#channel=C0AGENTS&user={ADA}") as page:
        if await page.locator("#guide-close").is_visible():
            await page.locator("#guide-close").click()
        film = Film(page)
        await page.locator("#composer textarea").fill("/agent run refunds please refund order 7")
        await film.take(2)
        card = await _asked(page, 7)
        await film.take(2.5)
        await card.get_by_role("button", name="Approve: ").hover()
        await film.take(1)
        await card.get_by_role("button", name="Approve: ").click()
        await page.locator("#confirm-yes").hover()
        await film.take(1.5)
        await page.locator("#confirm-yes").click()
        await expect(card).to_contain_text("Done in")
        await film.take(2.5)
        await page.locator('[data-channel="C0AGENTS"]').first.click()
        await page.locator(f'[data-person="{ADA}"]').click()
        await expect(page.locator("#messages")).to_contain_text("Completed")
        await film.take(3)
        film.save(folder / "approval.webp")


async def _inbox(browser: Browser, demo: DemoEnvironment, folder: Path) -> None:
    async with _page(browser, f"{demo.slack.url}/#channel=C0AGENTS&user={ADA}") as page:
        for order in (8, 6):
            await _asked(page, order)
    link = await _link(demo)
    async with _page(browser, link) as page:
        await page.get_by_role("button", name="Sign in").click()
        row = page.locator(".row .open", has_text="for order 8")
        await expect(row).to_be_visible()
        await page.locator("h1").first.hover()
        await _save(page, folder, "inbox")
        await page.emulate_media(color_scheme="dark")
        await row.click()
        await expect(page.locator("#what")).to_contain_text("for order 8")
        await _save(page, folder, "inbox-request")


async def _link(demo: DemoEnvironment) -> str:
    answer = await demo.slack.person(GRACE).command("/approvals", "inbox", "C0REVIEW")
    found = re.search(rf"{re.escape(demo.address)}/sign-in/link/[^|>]+", str(answer.response))
    if found is None:
        raise RuntimeError(f"no link to the inbox: {answer.response}")
    return found[0]


async def _asked(page: Page, order: int) -> Locator:
    return await _command(page, f"refunds please refund order {order}", f"for order {order}")


async def _type(page: Page, command: str) -> None:
    await page.locator("#composer textarea").fill(command)
    await page.locator("#composer textarea").press("Enter")


async def _command(page: Page, task: str, words: str) -> Locator:
    await page.locator(f'[data-person="{ADA}"]').click()
    await page.locator('[data-channel="C0AGENTS"]').first.click()
    await _type(page, f"/agent run {task}")
    await page.locator('[data-channel="C0REVIEW"]').first.click()
    await page.locator(f'[data-person="{GRACE}"]').click()
    card = page.locator("#messages article", has_text=words).last
    await expect(card.get_by_role("button", name="Details: ")).to_be_visible()
    return card


@asynccontextmanager
async def _page(browser: Browser, address: str) -> AsyncIterator[Page]:
    context = await browser.new_context(
        viewport={"width": WIDTH, "height": HEIGHT},
        device_scale_factor=1.25,
        locale="en-US",
        color_scheme="light",
    )
    page = await context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    await page.goto(address)
    yield page
    await context.close()


async def _save(what: Locator | Page, folder: Path, name: str) -> None:
    await what.screenshot(path=folder / f"{name}.png", animations="disabled")
    print(folder / f"{name}.png")  # noqa: T201 - output of the command


def _installed() -> str:
    """Exits if Chromium or an emoji font is missing."""
    chromium = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if chromium is None:
        raise SystemExit("no Chromium on PATH; on Debian or Ubuntu: apt-get install chromium")
    if not _emoji_fonts().strip():
        raise SystemExit(
            "no font has emoji; on Debian or Ubuntu: apt-get install fontconfig fonts-noto-color-emoji"
        )
    return chromium


def _emoji_fonts() -> str:
    """None if fontconfig is not installed."""
    fc_list = shutil.which("fc-list")
    if fc_list is None:
        return ""
    listed = subprocess.run([fc_list, ":lang=und-zsye"], capture_output=True, text=True, check=False)
    return listed.stdout


if __name__ == "__main__":
    asyncio.run(take(Path(sys.argv[1])))
