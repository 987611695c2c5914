"""What people see beyond the tour's agent: programs, layouts, names of an installation's own, notices."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from agent.domain.api_keys import Scope
from agent.usecases import api_keys
from signoff.client import AsyncApprovalClient
from signoff_demo.sandbox import SlackSandbox

# Without the extra, collecting this file must not fail; these imports therefore stand below the check.
pytest.importorskip("playwright", reason="the browser tests need the extra `e2e`: run `make e2e`")
from tests.e2e.test_front_end import ADA, GRACE, PATIENCE_MS, Desk
from tests.e2e.test_page import browser  # noqa: F401
from tests.integration.service.conftest import House, http_house  # noqa: F401
from tests.integration.service.test_command_names import EU, OURS, commands
from tests.integration.web.visiting import ADA as OWNER
from tests.integration.web.visiting import data_agent

from axe_playwright_python.async_playwright import Axe  # isort: skip
from playwright.async_api import Browser, Locator, Page, expect  # isort: skip

pytestmark = pytest.mark.e2e

PUBLIC = "https://signoff.example"
POLICY = """
[defaults]
channel = "C0REVIEW"
approvers = ["S0FINANCE"]
admin_channel = "C0GENERAL"

[[checkpoint]]
checkpoint_id = "archives"
action_pattern = "archive"
when = "args.rows > 10"
description_template = "Archive {args.table_name}"
layout = "plain"
labels = { rows = "How many rows" }
hide = ["trace"]
"""


@asynccontextmanager
async def at(house: House, browser: Browser) -> AsyncIterator[Desk]:  # noqa: F811
    """A page on the sandbox, in the channel of reviews as Grace."""
    complaints: list[str] = []
    page = await browser.new_page(viewport={"width": 390, "height": 844})
    page.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    await page.goto(f"{house.slack.url}/#channel=C0REVIEW&user={GRACE}")
    await expect(page.locator("#place")).to_have_text("# refund-reviews")
    yield Desk(house, page)
    await page.close()
    expect.set_options(timeout=5_000)
    assert complaints == []


@pytest_asyncio.fixture
async def actors(
    browser: Browser,  # noqa: F811
    http_house: House,  # noqa: F811
) -> AsyncIterator[Desk]:
    """The service, without its scheduler, with an agent and doors for programs, and a phone on the sandbox."""
    await http_house.open([data_agent()], POLICY, SIGNOFF_PUBLIC_URL=PUBLIC, SIGNOFF_ROLES="web,worker")
    async with at(http_house, browser) as desk:
        yield desk


async def go(page: Page, channel: str, user: str) -> None:
    await page.evaluate("place => { location.hash = place }", f"channel={channel}&user={user}")
    await expect(page.locator(f'[data-channel="{channel}"]').first).to_have_attribute("aria-current", "page")


async def key(house: House) -> str:
    return await api_keys.create(house.db, "crm", [Scope.REQUEST], by="test", owner=OWNER)


def address(house: House) -> str:
    return f"http://127.0.0.1:{house.services[-1].port}"


def card(page: Page, words: str) -> Locator:
    return page.locator("#messages article", has_text=words).last


async def look(page: Page) -> None:
    """axe-core's findings on the page as it is now, in light and dark, and its width."""
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        found = await Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_a_program_and_its_question_are_read_and_decided(actors: Desk) -> None:
    """The title is the action, said once; a question is its own text; each answer reaches the program."""
    page = actors.page
    async with AsyncApprovalClient(address(actors.house), await key(actors.house)) as client:

        @client.requires_approval(timeout="5m")
        async def deploy(service: str, version: str) -> str:
            return f"deployed {service} {version}"

        async with asyncio.TaskGroup() as tasks:
            deployed = tasks.create_task(deploy("checkout", "2.14.0"))
            asked = card(page, "checkout")
            await expect(asked.locator(".header")).to_have_text(
                "Medium risk · deploy · service: checkout, version: 2.14.0"
            )
            await expect(asked).not_to_contain_text("Arguments")
            await look(page)
            await asked.get_by_role("button", name="Approve: ").click()
            answered = tasks.create_task(
                client.ask(None, None, description="May I tell Ines?", context={"order": 4711}, timeout="5m")
            )
            question = card(page, "May I tell Ines?")
            await expect(question.locator(".header")).to_have_text(
                "Medium risk · The agent asks: “May I tell Ines?”"
            )
            await expect(question).to_contain_text("order: 4711")
            await look(page)
            await question.get_by_role("button", name="Approve: ").click()
        assert deployed.result() == "deployed checkout 2.14.0"
        assert answered.result().status == "approved"


def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()


async def test_a_gate_that_waits_says_where_on_standard_error(actors: Desk) -> None:
    """One line with the request, one with its card; the card shows the command once, and its approval starts it."""
    command = (sys.executable, "-c", "print('rolled out')")
    gate = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("signoff"),
        *("gate", "--action", "roll_out", "--arg", "env=prod", "--", *command),
        env=os.environ | {"SIGNOFF_URL": address(actors.house), "SIGNOFF_KEY": await key(actors.house)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with AsyncExitStack() as stack:
        stack.callback(_end, gate)
        assert gate.stderr is not None
        said = ""
        while "slack.com/archives/C0REVIEW/" not in said:
            line = await asyncio.wait_for(gate.stderr.readline(), PATIENCE_MS / 1000)
            assert line, said
            said += line.decode()
        assert "signoff: waiting for people to decide: roll_out · env: prod" in said
        asked = card(actors.page, "roll_out")
        await expect(asked.locator("pre")).to_contain_text("rolled out")
        await asked.get_by_role("button", name="Approve: ").click()
        shown, _ = await asyncio.wait_for(gate.communicate(), PATIENCE_MS / 1000)
        assert (gate.returncode, shown) == (0, b"rolled out\n")


PROGRAM = """
import os
from signoff import ApprovalClient

with ApprovalClient(os.environ["SIGNOFF_URL"], os.environ["SIGNOFF_KEY"]) as client:
    print(client.ask("deploy", {"region": "eu"}, timeout="5m").status)
"""


async def test_a_program_that_waits_links_to_its_card(actors: Desk) -> None:
    """One line on standard error, with the address of the card that answers it."""
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM),
        env=os.environ | {"SIGNOFF_URL": address(actors.house), "SIGNOFF_KEY": await key(actors.house)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with AsyncExitStack() as stack:
        stack.callback(_end, program)
        assert program.stderr is not None
        line = (await asyncio.wait_for(program.stderr.readline(), PATIENCE_MS / 1000)).decode()
        assert line.startswith("signoff: waiting for people to decide about deploy · region: eu (request ")
        link = re.search(r"https://[a-z0-9-]+\.slack\.com(/archives/C0REVIEW/p\d+)$", line)
        assert link, line
        await actors.page.goto(actors.house.slack.url + link[1])
        asked = card(actors.page, "region: eu")
        await expect(asked).to_be_in_viewport()
        await go(actors.page, "C0REVIEW", GRACE)
        await asked.get_by_role("button", name="Approve: ").click()
        shown, more = await asyncio.wait_for(program.communicate(), PATIENCE_MS / 1000)
        assert (program.returncode, shown, more) == (0, b"approved\n", b"")


async def test_a_plain_card_hides_in_details_and_details_say_why(actors: Desk) -> None:
    """Labels and words instead of names, a count of what is hidden, and behind Details all of it with the reason."""
    page = actors.page
    arguments = {"table_name": "users", "rows": 50, "trace": "t-4711"}
    async with AsyncApprovalClient(address(actors.house), await key(actors.house)) as client:
        await client.submit("archive", arguments, description="Archive users")
    asked = card(page, "Archive “users”")
    await expect(asked).to_contain_text("How many rows: 50")
    await expect(asked).to_contain_text("1 more value is in Details.")
    await expect(asked).not_to_contain_text("t-4711")
    await asked.get_by_role("button", name="Details: ").click()
    details = page.locator("#modal")
    await expect(details).to_contain_text("t-4711")
    await expect(details).to_contain_text("Why am I asked?")
    await expect(details).to_contain_text("Checkpoint archives catches it: when (args.rows > 10) is true")
    await look(page)


async def test_a_shortcut_starts_an_agent_on_a_message(actors: Desk) -> None:
    """Its form has the agents; what the agent does with the message is asked about."""
    page = actors.page
    await go(page, "C0AGENTS", ADA)
    await actors.type("please delete_records table_name=users count=50")
    message = card(page, "table_name=users")
    await message.get_by_role("button", name="Start an agent on this").click()
    form = page.locator("#modal")
    await form.get_by_role("button", name=re.compile("^(Start|Run|Next)")).first.click()
    await expect(form).to_be_hidden()
    await go(page, "C0REVIEW", GRACE)
    await expect(card(page, "table_name: users").get_by_role("button", name="Approve: ")).to_be_visible()


async def test_who_asked_is_told_and_chooses_how(actors: Desk) -> None:
    """The outcome mentions them in the run's thread; `/approvals notify` says how, and changes it."""
    page = actors.page
    await go(page, "C0AGENTS", ADA)
    await actors.type("/agent run data please delete_records table_name=users count=50")
    await go(page, "C0REVIEW", GRACE)
    await card(page, "table_name: users").get_by_role("button", name="Approve: ").click()
    await go(page, "C0AGENTS", ADA)
    run = card(page, "Completed")
    await run.get_by_role("button", name=re.compile("repl")).click()
    told = page.locator("#replies article", has=page.locator(".mention", has_text="@ada"))
    await expect(told.last).to_contain_text("Deleted 50 records")
    await page.locator("#thread-close").click()
    answer = page.locator("article.private").last
    await actors.type("/approvals notify")
    await expect(answer).to_contain_text("/approvals notify dm")
    await actors.type("/approvals notify off")
    await expect(answer).to_contain_text("Nobody mentions you")


async def test_operators_read_the_week_and_open_its_pages(actors: Desk) -> None:
    """The scheduler posts it; each number has a link to the inbox page with the same."""
    async with AsyncApprovalClient(address(actors.house), await key(actors.house)) as client:
        await client.submit("deploy", {"region": "eu"})
    await expect(card(actors.page, "region: eu")).to_be_visible()
    await actors.house.open([data_agent()], POLICY, SIGNOFF_PUBLIC_URL=PUBLIC, SIGNOFF_ROLES="scheduler")
    await go(actors.page, "C0GENERAL", ADA)
    told = card(actors.page, "The week from")
    await expect(told).to_contain_text("Waiting now, by age: under 5 min: 1; 1 in all")
    await expect(told.get_by_role("link", name="open the page").first).to_have_attribute(
        "href", f"{PUBLIC}/inbox/history?status=waiting&sort=oldest"
    )
    await look(actors.page)


async def test_an_installation_has_names_of_its_own(
    browser: Browser,  # noqa: F811
    http_house: House,  # noqa: F811
) -> None:
    """They are completed as one types, and answers name them."""
    async with SlackSandbox(http_house.slack.workspace, commands=commands(EU), rate_limits=False) as slack:
        http_house.slack = slack
        http_house.environment |= {
            **OURS,
            "SLACK_BOT_TOKEN": slack.bot_token,
            "SLACK_API_URL": slack.api_url,
            "SLACK_SIGNING_SECRET": slack.signing_secret,
        }
        await http_house.open([data_agent()], POLICY)
        async with at(http_house, browser) as desk:
            box = desk.page.locator("#composer textarea")
            await box.press_sequentially("/eu-ap")
            await expect(desk.page.get_by_role("option", name="/eu-approvals")).to_be_visible()
            await desk.type("/eu-approvals notify")
            await expect(desk.page.locator("article.private").last).to_contain_text("/eu-approvals notify dm")
        await http_house.services[-1].stop()
