"""The sandbox page in a real browser, against the real stand-in and a small Bolt app on Socket Mode."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from signoff_demo.sandbox import SlackSandbox

# Without the extra, collecting this file must not fail; the import therefore stands below the check.
pytest.importorskip("playwright", reason="the browser tests need the extra `e2e`: run `make e2e`")
from playwright.async_api import (
    Browser,
    ConsoleMessage,
    Locator,
    Page,
    Route,
    async_playwright,
    expect,
)

pytestmark = pytest.mark.e2e

CHANNEL = "C0AGENTS"
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]


def _text(words: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": words}


HOSTILE = "<b>bold?</b> <img src=x onerror=document.title='owned'>"
CARD: list[dict[str, Any]] = [
    {"type": "header", "text": _text("Refund 1,240.00 for order 7")},
    {"type": "section", "text": {"type": "mrkdwn", "text": "*Risk:* high, for <!subteam^S0FINANCE>"}},
    {
        "type": "rich_text",
        "elements": [
            {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": HOSTILE}]},
        ],
    },
    {
        "type": "actions",
        "block_id": "decide",
        "elements": [
            {
                "type": "button",
                "action_id": "approve",
                "style": "primary",
                "text": _text("Approve"),
                "value": "r1",
                "confirm": {
                    "title": _text("Approve this?"),
                    "text": _text("It pays 1,240.00."),
                    "confirm": _text("Yes, approve"),
                    "deny": _text("Not yet"),
                },
            },
            {
                "type": "button",
                "action_id": "reject",
                "style": "danger",
                "text": _text("Reject"),
                "value": "r1",
            },
            {"type": "button", "action_id": "broken", "text": _text("Broken"), "value": "r1"},
        ],
    },
]
MODAL: dict[str, Any] = {
    "type": "modal",
    "callback_id": "reason",
    "private_metadata": "kept as it is",
    "title": _text("Reject request"),
    "submit": _text("Reject"),
    "close": _text("Cancel"),
    "blocks": [
        {
            "type": "input",
            "block_id": "why",
            "label": _text("Reason"),
            "element": {"type": "plain_text_input", "action_id": "text", "multiline": True},
        },
        {
            "type": "input",
            "block_id": "kind",
            "optional": True,
            "label": _text("Kind"),
            "element": {
                "type": "static_select",
                "action_id": "choice",
                "options": [
                    {"text": _text("Wrong amount"), "value": "amount"},
                    {"text": _text("Wrong customer"), "value": "customer"},
                ],
            },
        },
    ],
}


class Heard:
    """Payloads that the app received, to be awaited."""

    def __init__(self) -> None:
        self.all: list[tuple[Any, ...]] = []
        self._news = asyncio.Condition()

    async def note(self, *fact: Any) -> None:
        async with self._news:
            self.all.append(fact)
            self._news.notify_all()

    def of(self, kind: str) -> list[tuple[Any, ...]]:
        return [fact for fact in self.all if fact[0] == kind]

    async def latest(self, kind: str, number: int = 1) -> tuple[Any, ...]:
        """The latest fact of this kind; waits up to 10 s until there are so many."""
        async with asyncio.timeout(10), self._news:
            await self._news.wait_for(lambda: len(self.of(kind)) >= number)
        return self.of(kind)[-1]


def small_app(sandbox: SlackSandbox, heard: Heard) -> AsyncApp:
    """A Bolt app that posts a card, asks for a reason, and records each payload."""
    app = AsyncApp(
        client=AsyncWebClient(token=sandbox.bot_token, base_url=sandbox.api_url),
        signing_secret=sandbox.signing_secret,
    )

    @app.command("/agent")
    async def agent(ack: Any, command: dict[str, Any], client: AsyncWebClient) -> None:
        await ack()
        await heard.note("command", command["user_id"], command["text"])
        await client.chat_postMessage(channel=command["channel_id"], text="Refund 1,240.00", blocks=CARD)

    @app.action("approve")
    async def approve(ack: Any, body: dict[str, Any], client: AsyncWebClient) -> None:
        await ack()
        await heard.note("approve", body["user"]["id"])
        place = {"channel": body["channel"]["id"], "ts": body["message"]["ts"]}
        done = {"type": "section", "block_id": "done", "text": _text("Approved by Grace")}
        await client.chat_update(**place, text="Approved", blocks=[done])

    @app.action("reject")
    async def reject(ack: Any, body: dict[str, Any], client: AsyncWebClient) -> None:
        await client.views_open(trigger_id=body["trigger_id"], view=MODAL)
        await ack()

    @app.view("reason")
    async def reason(ack: Any, body: dict[str, Any], view: dict[str, Any]) -> None:
        values = view["state"]["values"]
        words = values["why"]["text"]["value"]
        if len(words) < 10:
            await ack(response_action="errors", errors={"why": "Please say more."})
            return
        kind = values["kind"]["choice"]["selected_option"]
        await heard.note("reason", body["user"]["id"], words, kind["value"], view["private_metadata"])
        await ack()

    @app.event("message")
    async def message(event: dict[str, Any]) -> None:
        if event.get("thread_ts") and "bot_id" not in event:
            await heard.note("reply", event["user"], event["text"])

    @app.event("app_home_opened")
    async def home(event: dict[str, Any], client: AsyncWebClient) -> None:
        words = {"type": "section", "text": _text(f"Nothing waits for {event['user']}")}
        await client.views_publish(user_id=event["user"], view={"type": "home", "blocks": [words]})

    return app


@dataclass(frozen=True)
class Desk:
    """The sandbox, the app's payloads, the open page and its console errors."""

    sandbox: SlackSandbox
    heard: Heard
    page: Page
    complaints: list[str]

    async def act_as(self, user: str) -> None:
        await self.page.locator(f'[data-person="{user}"]').click()
        await expect(self.page.locator(f'[data-person="{user}"]')).to_have_attribute("aria-pressed", "true")

    async def write(self, words: str, box: str = "#composer") -> None:
        await self.page.locator(f"{box} textarea").fill(words)
        await self.page.locator(f"{box} textarea").press("Enter")

    async def card(self) -> Locator:
        """A fresh card in the channel, asked for with the slash command."""
        await self.write("/agent run refunds refund order 7")
        card = self.page.locator("#messages article", has_text="Refund 1,240.00 for order 7").last
        await expect(card).to_be_visible()
        return card


@pytest_asyncio.fixture
async def browser() -> AsyncIterator[Browser]:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert chromium, "no Chromium on PATH: `make e2e` installs it"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture
async def actors(browser: Browser) -> AsyncIterator[Desk]:
    heard = Heard()
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error":
            complaints.append(message.text)

    async with SlackSandbox() as sandbox:
        handler = AsyncSocketModeHandler(
            small_app(sandbox, heard),
            sandbox.app_token,
            web_client=AsyncWebClient(token=sandbox.app_token, base_url=sandbox.api_url),
        )
        await handler.connect_async()
        await sandbox.wait_for(lambda: sandbox.sockets.connections)
        page = await browser.new_page()
        page.set_default_timeout(10_000)
        page.on("console", note)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        await page.goto(f"{sandbox.url}/#channel={CHANNEL}&user=U0ADA")
        await expect(page.locator("#place")).to_have_text("# agents")
        yield Desk(sandbox, heard, page, complaints)
        await page.close()
        await handler.close_async()
    assert complaints == []


async def test_a_click_outlives_a_redraw(actors: Desk) -> None:
    """A channel opens even if a message arrives and marks it unread between the press and the release."""
    there = actors.page.locator('button[data-channel="C0REVIEW"]')
    await there.hover()
    await actors.page.mouse.down()
    client = AsyncWebClient(token=actors.sandbox.bot_token, base_url=actors.sandbox.api_url)
    await client.chat_postMessage(channel="C0REVIEW", text="a card")
    await expect(there).to_have_class("unread")
    await actors.page.mouse.up()
    await expect(actors.page.locator("#place")).to_have_text("# refund-reviews")


async def test_a_slash_command_reaches_the_app_as_the_acting_person(actors: Desk) -> None:
    """A command typed on the page, completed from the list, arrives as the person one acts as."""
    box = actors.page.locator("#composer textarea")
    await box.press_sequentially("/ag")
    await expect(actors.page.get_by_role("option", name="/agent")).to_be_visible()
    await box.press("Tab")
    await box.press_sequentially("run refunds refund order 7")
    await box.press("Enter")
    assert await actors.heard.latest("command") == ("command", "U0ADA", "run refunds refund order 7")
    card = actors.page.locator("#messages article")
    await expect(card.get_by_role("heading")).to_have_text("Refund 1,240.00 for order 7")
    await expect(card.locator(".mention")).to_have_text("@finance")


async def test_a_phone_has_room_to_write(actors: Desk) -> None:
    """At 390 pixels the composer, its list of commands and Send are whole, and a long text grows upwards."""
    page, width, height = actors.page, 390, 844
    await page.set_viewport_size({"width": width, "height": height})
    box = page.locator("#composer textarea")
    one_line = await box.bounding_box()
    await box.fill("/ag")
    shown = (
        box,
        page.get_by_role("option", name="/agent"),
        page.locator("#composer").get_by_role("button", name="Send"),
    )
    for each in shown:
        await expect(each).to_be_in_viewport(ratio=1)
    await box.fill("please look at order 7 " * 8)
    await expect(page.locator("#composer")).to_be_in_viewport(ratio=1)
    grown = await box.bounding_box()
    assert one_line is not None
    assert grown is not None
    assert grown["height"] > 2 * one_line["height"]


async def test_content_never_becomes_markup(actors: Desk) -> None:
    """HTML in a message is shown as the characters it is."""
    card = await actors.card()
    await expect(card.locator("pre")).to_have_text(HOSTILE)
    await expect(card.locator("img, b")).to_have_count(0)
    await expect(actors.page).to_have_title("Signoff sandbox: a local stand-in for Slack")


async def test_a_button_with_a_confirm_dialog_is_pressed_only_after_yes(actors: Desk) -> None:
    """ "Not yet" sends nothing; confirming sends one click, and the changed card appears by itself."""
    card = await actors.card()
    await actors.act_as("U0GRACE")
    await card.get_by_role("button", name="Approve").click()
    dialog = actors.page.get_by_role("alertdialog")
    await expect(dialog).to_contain_text("It pays 1,240.00.")
    await dialog.get_by_role("button", name="Not yet").click()
    await expect(dialog).to_be_hidden()
    await card.get_by_role("button", name="Approve").click()
    await dialog.get_by_role("button", name="Yes, approve").click()
    await expect(actors.page.locator("#messages article", has_text="Approved by Grace")).to_be_visible()
    await expect(actors.page.get_by_role("button", name="Approve")).to_have_count(0)
    assert actors.heard.of("approve") == [("approve", "U0GRACE")]


async def test_a_modal_shows_errors_beside_fields_and_is_then_accepted(actors: Desk) -> None:
    """An empty field and the app's own error show in the modal; a good answer arrives whole and closes it."""
    await (await actors.card()).get_by_role("button", name="Reject").click()
    modal = actors.page.get_by_role("dialog", name="Reject request")
    await modal.get_by_role("button", name="Reject").click()
    await expect(modal.locator('[data-block="why"] .error')).to_have_text(
        "Please complete this required field."
    )
    await modal.get_by_label("Reason").fill("too much")
    await modal.get_by_role("button", name="Reject").click()
    await expect(modal.locator('[data-block="why"] .error')).to_have_text("Please say more.")
    await expect(actors.page.locator("#ack")).to_contain_text("the form was not accepted, ")
    await expect(modal.get_by_label("Reason")).to_have_value("too much")
    await modal.get_by_label("Reason").fill("The amount\nis wrong")
    await modal.get_by_label("Kind").select_option("Wrong amount")
    await modal.get_by_role("button", name="Reject").click()
    await expect(modal).to_be_hidden()
    heard = await actors.heard.latest("reason")
    assert heard == ("reason", "U0ADA", "The amount\nis wrong", "amount", "kept as it is")


async def test_escape_closes_a_modal_and_sends_nothing(actors: Desk) -> None:
    """Leaving a modal with the keyboard closes it for Slack too."""
    await (await actors.card()).get_by_role("button", name="Reject").click()
    await expect(actors.page.locator("#modal")).to_be_visible()
    await actors.page.keyboard.press("Escape")
    await expect(actors.page.locator("#modal")).to_be_hidden()
    assert actors.sandbox.views("U0ADA") == []


async def test_a_reply_in_a_thread_reaches_the_app(actors: Desk) -> None:
    """A reply written in the thread pane is stored in the thread and counted under the card."""
    card = await actors.card()
    await card.hover()
    await card.get_by_role("button", name="Reply in thread").click()
    await actors.write("is it @grace who paid?", "#reply")
    assert await actors.heard.latest("reply") == ("reply", "U0ADA", "is it <@U0GRACE> who paid?")
    await expect(actors.page.locator("#replies article").last).to_contain_text("is it @grace who paid?")
    await expect(card.locator(".thread-line")).to_contain_text("1 reply")
    await actors.write("/agent list", "#reply")
    await expect(actors.page.locator(".toast")).to_contain_text("cannot be used in threads")


async def test_what_slack_would_complain_about_is_shown(actors: Desk) -> None:
    """A click that no listener answers is shown as an error, as in Slack."""
    await (await actors.card()).get_by_role("button", name="Broken").click()
    await expect(actors.page.locator(".toast")).to_be_visible()


async def test_ephemeral_messages_are_shown_to_their_reader_alone(actors: Desk) -> None:
    """A message for one person is marked as such, and gone when one acts as another."""
    client = AsyncWebClient(token=actors.sandbox.bot_token, base_url=actors.sandbox.api_url)
    await client.chat_postEphemeral(channel=CHANNEL, user="U0ADA", text="You may not approve this.")
    reply_ephemeral = actors.page.locator("#messages article", has_text="You may not approve this.")
    await expect(reply_ephemeral).to_contain_text("Only visible to you")
    await actors.act_as("U0GRACE")
    await expect(reply_ephemeral).to_have_count(0)


async def test_the_app_home_is_published_and_shown(actors: Desk) -> None:
    """Opening the app's Home sends the event, and each person sees the Home published for them."""
    await actors.page.locator("#open-home").click()
    await expect(actors.page.locator("#home")).to_contain_text("Nothing waits for U0ADA")
    await actors.act_as("U0GRACE")
    await expect(actors.page.locator("#home")).to_contain_text("Nothing waits for U0GRACE")


async def offer(page: Page, steps: list[dict[str, Any]]) -> None:
    """The page's guide has one scene with these steps."""
    scene = {"title": "Try this", "intro": "It is *easy*.", "after": "That was it.", "steps": steps}
    guide = {"title": "Guide", "start": {"user": "U0GRACE", "channel": "C0REVIEW"}, "scenes": [scene]}

    async def answer(route: Route) -> None:
        await route.fulfill(json=guide | {"cast": ["U0GRACE", "U0LINUS"]})

    await page.route("**/sandbox/guide", answer)


def step(text: str, label: str, **act: Any) -> dict[str, Any]:
    return {"text": text, "label": label, "done": False, "waits": False, **act}


async def test_a_step_of_the_guide_is_done_as_its_person(actors: Desk) -> None:
    """Its button acts as its person in its channel, once; one that only leads to a message marks it there."""
    card = await actors.card()
    ts = await card.get_attribute("data-ts")
    command = "/agent run refunds order 7"
    ask = step(
        "Ask for a *large* refund.", "Ask as Linus", **{"as": "U0LINUS"}, channel=CHANNEL, command=command
    )
    look = step("Look.", "Show the card", **{"as": "U0GRACE"}, channel=CHANNEL, ts=ts)
    await offer(actors.page, [ask])
    await actors.page.goto(actors.sandbox.url)
    await actors.page.reload()
    await expect(actors.page.locator("#place")).to_have_text("# refund-reviews")
    await expect(actors.page.locator("#place-note")).to_have_text("You act as Grace Hopper")
    guide = actors.page.get_by_role("complementary", name="Guide")
    button = guide.get_by_role("button", name="Ask as Linus")
    await button.press("Enter")
    assert await actors.heard.latest("command", 2) == ("command", "U0LINUS", "run refunds order 7")
    await expect(actors.page.locator("#place")).to_have_text("# agents")
    await button.press("Enter")
    assert len(actors.heard.of("command")) == 2  # the card's own, and one

    await offer(actors.page, [{**ask, "done": True}, look])
    await actors.page.reload()
    await expect(guide.get_by_role("img", name="done", exact=True)).to_have_count(1)
    await guide.get_by_role("button", name="Show the card").click()
    await expect(actors.page.locator(f'[data-ts="{ts}"]')).to_be_in_viewport()
    await expect(actors.page.locator("#place-note")).to_have_text("You act as Grace Hopper")

    await offer(actors.page, [{**ask, "done": True}])
    await actors.page.reload()
    await expect(guide).to_contain_text("That was it.")
    await expect(guide).to_contain_text("1 of 1 done")


async def test_the_browser_goes_back_to_the_place_before(actors: Desk) -> None:
    """Back leads to the channel that was open before, as in Slack, and Forward on again."""
    place = actors.page.locator("#place")
    await expect(place).to_have_text("# agents")
    await actors.page.locator('[data-channel="C0REVIEW"]').first.click()
    await expect(place).to_have_text("# refund-reviews")
    await actors.page.go_back()
    await expect(place).to_have_text("# agents")
    await actors.page.go_forward()
    await expect(place).to_have_text("# refund-reviews")


async def test_a_thread_does_not_hide_the_guide(actors: Desk) -> None:
    """Channel, thread and guide have columns of their own; on a phone the next step is on top, and more on demand."""
    await offer(actors.page, [step("Look around.", "Look", **{"as": "U0ADA"}, channel=CHANNEL)])
    await actors.page.reload()
    card = await actors.card()
    await card.hover()
    await card.get_by_role("button", name="Reply in thread").click()
    guide = actors.page.get_by_role("complementary", name="Guide")
    for width in (1500, 1280, 1024):
        await actors.page.set_viewport_size({"width": width, "height": 800})
        await expect(actors.page.locator("#replies")).to_be_visible()
        await guide.get_by_role("button", name="Look").click(trial=True)
        assert await actors.page.evaluate("document.documentElement.scrollWidth") == width
    await actors.page.locator("#thread-close").click()
    await actors.page.set_viewport_size({"width": 390, "height": 844})
    await expect(guide.get_by_text("Look around.").first).to_be_visible()
    await expect(guide.get_by_text("It is easy.")).to_be_hidden()
    await guide.get_by_role("button", name="All steps").click()
    await expect(guide.get_by_text("It is easy.")).to_be_visible()
    await guide.get_by_role("button", name="Less").click()
    await guide.get_by_role("button", name="Close the guide").click()
    await expect(guide).to_be_hidden()
    await actors.page.reload()
    await expect(guide).to_be_hidden()
    await actors.page.get_by_role("button", name="Guide", exact=True).click()
    await expect(guide).to_be_visible()


async def test_channels_and_links_to_messages_lead_there(actors: Desk) -> None:
    """A channel's name and a message's address open here, in the same tab."""
    client = AsyncWebClient(token=actors.sandbox.bot_token, base_url=actors.sandbox.api_url)
    there = await client.chat_postMessage(channel="C0REVIEW", text="the card")
    link = await client.chat_getPermalink(channel="C0REVIEW", message_ts=there["ts"])
    await client.chat_postMessage(channel=CHANNEL, text=f"see <#C0REVIEW> and <{link['permalink']}|its card>")
    await actors.page.get_by_role("link", name="#refund-reviews").click()
    await expect(actors.page.locator("#place")).to_have_text("# refund-reviews")
    await actors.page.locator(f'button[data-channel="{CHANNEL}"]').click()
    await actors.page.get_by_role("link", name="its card").click()
    await expect(actors.page.locator(f'[data-ts="{there["ts"]}"]')).to_be_in_viewport()
    await actors.page.goto(actors.sandbox.url + link["permalink"].partition(".slack.com")[2])
    await expect(actors.page.locator(f'[data-ts="{there["ts"]}"]')).to_be_in_viewport()


async def test_the_page_fits_a_phone(actors: Desk) -> None:
    """At phone width nothing scrolls sideways, and the side opens as a drawer."""
    await actors.card()
    await actors.page.set_viewport_size({"width": 360, "height": 700})
    assert await actors.page.evaluate("document.documentElement.scrollWidth") == 360
    await actors.page.get_by_role("button", name="Channels and people").click()
    await actors.page.locator('button[data-channel="C0REVIEW"]').click()
    await expect(actors.page.locator("#place")).to_have_text("# refund-reviews")
    await expect(actors.page.locator("#side")).to_be_hidden()
