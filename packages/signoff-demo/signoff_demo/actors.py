"""What people see and do in the sandbox, and what is stored: for the guide's ticks, and for playing it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin
from uuid import UUID

import aiohttp

from agent.database.pools import Database
from agent.domain.request_view import RequestView
from agent.store import views
from signoff_demo.sandbox import InteractionResult, SlackSandbox
from slackbot.cards import ACTION_APPROVE, ACTION_MORE, ACTION_REJECT

Message = dict[str, Any]

AGENTS, REVIEWS = "C0AGENTS", "C0REVIEW"
ADA, GRACE, LINUS = "U0ADA", "U0GRACE", "U0LINUS"

SIGN_IN = re.compile(r"https?://[^\s|>\"]+/sign-in/link/[^\s|>\"]+")


class Seen:
    """What the sandbox shows."""

    def __init__(self, slack: SlackSandbox) -> None:
        self.slack = slack

    def cards(self, words: str = "") -> list[Message]:
        """With these words in the first line, oldest first."""
        return [each for each in self._about("request") if words in each["text"]]

    def card(self, words: str = "") -> Message | None:
        return next(reversed(self.cards(words)), None)

    def group(self, words: str) -> Message | None:
        """The latest message of a group with these words."""
        return next((each for each in reversed(self._about("group")) if words in str(each["blocks"])), None)

    def is_card(self, words: str, status: str) -> bool:
        return any(each["text"].startswith(status) for each in self.cards(words))

    def shows(self, words: str, detail: str) -> bool:
        return any(detail in str(each["blocks"]) for each in self.cards(words))

    def buttons(self, words: str) -> list[str]:
        """The labels on the latest card, links left out."""
        rows = [
            block for block in (self.card(words) or {"blocks": []})["blocks"] if block["type"] == "actions"
        ]
        return [each["text"]["text"] for row in rows for each in row["elements"] if "url" not in each]

    def run(self, task: str = "") -> Message | None:
        return next((each for each in reversed(self._about("run")) if each["text"].endswith(task)), None)

    def said(self, task: str, words: str) -> bool:
        run = self.run(task)
        thread = self.slack.thread(run["channel"], run["ts"]) if run else []
        return any(words in each["text"] for each in thread)

    def received_ephemeral(self, user: str, words: str) -> bool:
        return any(words in each["text"] for each in self.slack.ephemeral(user))

    def is_in_channel(self, words: str) -> bool:
        return any(words in each["text"] for each in self.slack.messages(AGENTS))

    def starts(self) -> int:
        """How often the service has started."""
        return len(self.slack.calls_of("apps.connections.open"))

    def _about(self, kind: str) -> list[Message]:
        """Messages that are a card (`request`) or a group's (`group`), or begin a run's thread (`run`)."""
        return [
            each
            for channel in self.slack.workspace.channels
            for each in self.slack.messages(channel)
            if kind in each.get("metadata", {}).get("event_payload", {})
        ]


async def choose(slack: SlackSandbox, user: str, card: Message, action_id: str) -> InteractionResult:
    """Press *More…* on the card, and this button in its form."""
    person = slack.person(user)
    await person.click(card, ACTION_MORE)
    form = await slack.wait_for(
        lambda: next((each for each in slack.views(user) if f"{action_id}'" in str(each)), None)
    )
    return await person.click(form, action_id)


class Actors(Seen):
    """People at their screens. No method acts through the service's internals; `db` is only read."""

    def __init__(self, slack: SlackSandbox, db: Database) -> None:
        super().__init__(slack)
        self._db = db

    async def approve(self, user: str, card: Message) -> InteractionResult:
        return await self.slack.person(user).click(card, ACTION_APPROVE)

    async def reject(self, user: str, card: Message, reason: Mapping[str, Any]) -> None:
        await self.slack.person(user).click(card, ACTION_REJECT)
        await self.fill_in(user, reason)

    async def choose(self, user: str, card: Message, action_id: str) -> InteractionResult:
        return await choose(self.slack, user, card, action_id)

    async def fill_in(self, user: str, values: Mapping[str, Any]) -> InteractionResult:
        """Submit the form that has just been opened to this person."""
        forms = await self.slack.wait_for(lambda: [each for each in self.slack.views(user) if each["submit"]])
        return await self.slack.person(user).submit(forms[-1], values)

    async def approve_in_browser(self, user: str, words: str) -> None:
        """Sign in by the latest link, open the request with these words, tick what it asks for, approve."""
        said = "\n".join(str(each) for each in self.slack.ephemeral(user))
        link = SIGN_IN.findall(said)[-1]
        same = {"Sec-Fetch-Site": "same-origin"}
        jar = aiohttp.CookieJar(unsafe=True)  # keeps the cookies of an address without a name
        async with aiohttp.ClientSession(cookie_jar=jar, headers=same, raise_for_status=True) as browser:
            async with browser.post(link) as answer:
                address = urljoin(link, _Page(await answer.text()).link(words))
            async with browser.get(address) as answer:
                action, fields = _Page(await answer.text()).form("approve")
            async with browser.post(urljoin(address, action), data=fields) as answer:
                await answer.read()

    async def request(self, words: str) -> RequestView:
        card = self.card(words) or {}
        found = await self._db.read(views.request_view, UUID(card["metadata"]["event_payload"]["request"]))
        if found is None:
            raise LookupError(f"there is no request of the card with {words!r}")
        return found

    async def attempts(self, words: str) -> int:
        execution = (await self.request(words)).execution
        return 0 if execution is None else execution.attempt


class _Page(HTMLParser):
    """The links and forms of a page of the inbox."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._links: list[tuple[str, str]] = []
        self._forms: dict[str, tuple[str, dict[str, str]]] = {}
        self._fields: dict[str, str] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "a":
            self._links.append((given.get("href", ""), ""))
        elif tag == "form":
            self._fields = {}
            self._forms[given.get("id", "")] = given.get("action", ""), self._fields
        elif tag == "input" and given.get("type") in ("hidden", "checkbox") and "name" in given:
            self._fields[given["name"]] = given.get("value", "on")

    def handle_data(self, data: str) -> None:
        if self._links:
            address, words = self._links[-1]
            self._links[-1] = address, words + data

    def link(self, words: str) -> str:
        """The address of the first link with these words. Raises LookupError."""
        return next(self._found(words), None) or self._missing(f"link with {words!r}")

    def form(self, name: str) -> tuple[str, dict[str, str]]:
        """Its address, and its fields with every box ticked. Raises LookupError."""
        return self._forms.get(name) or self._missing(f"form {name!r}")

    def _found(self, words: str) -> Iterator[str]:
        return (address for address, text in self._links if words in text)

    @staticmethod
    def _missing(what: str) -> Any:
        raise LookupError(f"the page has no {what}")
