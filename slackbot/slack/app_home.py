"""Keep open App Homes up to date: poll twice a second, publish on change, once per person and `PACE`."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from agent.database.background import start_task
from agent.database.errors import DatabaseError
from agent.database.failure_log import log_failure
from agent.database.pools import Database
from agent.domain.request_list import RequestLine
from agent.domain.request_view import RequestView
from agent.runtime.policy_in_force import PolicyInForce
from agent.store import views
from agent.usecases import requests
from signoff.values import Person
from slackbot.cards import PAGE_OF_HOME, HomeView, Pages, home, named_in, notice_modal, page_value
from slackbot.cards.app_home import MAX_ROWS, MAX_WAITING
from slackbot.cards.command_names import DEFAULT_NAMES, CommandNames
from slackbot.cards.cursor import Cursor
from slackbot.masking import clean_view, work_for
from slackbot.reviewing import grants, limits
from slackbot.reviewing.listing import ListPage, PersonalLists, without_secrets
from slackbot.slack_api.allowance import Allowance
from slackbot.slack_api.client import SlackClient, SlackError, SlackRefused
from slackbot.slack_api.directory import Directory
from slackbot.slack_api.permalinks import Permalinks

log = logging.getLogger(__name__)

LOOK = 0.5
"""Minimum seconds between polls, and between drawings for one person."""

PACE = 2.0
"""Average seconds between drawings for one person."""

REMEMBERED = 6 * 3600.0
"""Seconds until a Home that was not opened again is forgotten. Slack does not report closing."""

MOST = 500
"""Those opened longest ago are dropped."""

AT_ONCE = 4

NOT_A_MEMBER = (
    "Members of this workspace see here what waits for them. Slack did not confirm that you are a member."
)

NOT_SHOWN = "Slack does not accept this page right now. `/approvals` and `/agent status` show the same."

HASH_CONFLICT = "hash_conflict"


@dataclass
class HomeViewer:
    """A person whose App Home is kept up to date: its pages, its pace, and what was last published."""

    person: Person
    allowance: Allowance
    waiting: Cursor = field(default_factory=Cursor)
    mine: Cursor = field(default_factory=Cursor)
    opened_at: float = 0.0
    not_before: float = 0.0
    stale: bool = True
    shown: bytes = b""
    hash: str = ""  # Slack's, of our last published view


class AppHomes:
    """`show`, `turn_to` and `refresh` return at once; one task publishes."""

    def __init__(
        self,
        db: Database,
        directory: Directory,
        client: SlackClient,
        permalinks: Permalinks,
        policies: PolicyInForce,
        *,
        commands: CommandNames = DEFAULT_NAMES,
        look: float = LOOK,
        pace: float = PACE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._db = db
        self._directory = directory
        self._client = client
        self._permalinks = permalinks
        self._policies = policies
        self._commands = commands
        self._look_every = look
        self._pace = pace
        self._clock = clock
        self._viewers: dict[Person, HomeViewer] = {}
        self._change_token: str | None = None
        self._looked_at = 0.0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def open(self) -> int:
        return len(self._viewers)

    def show(self, person: Person) -> None:
        """Draw the first page, even if it does not differ."""
        before = self._viewers.pop(person, None) or self._viewer(person)
        self._viewers[person] = HomeViewer(
            person, before.allowance, opened_at=self._clock(), not_before=before.not_before
        )
        while len(self._viewers) > MOST:
            self._viewers.pop(next(iter(self._viewers)))
        self._ensure_running()

    def turn_to(self, person: Person, waiting: Cursor, mine: Cursor) -> None:
        viewer = self._viewers.setdefault(person, self._viewer(person))
        viewer.waiting, viewer.mine, viewer.opened_at = waiting, mine, self._clock()
        viewer.stale, viewer.not_before, viewer.hash = True, 0.0, ""
        self._ensure_running()

    def refresh(self, person: Person) -> None:
        viewer = self._viewers.setdefault(person, self._viewer(person))
        viewer.stale, viewer.opened_at = True, self._clock()
        self._ensure_running()

    def _viewer(self, person: Person) -> HomeViewer:
        return HomeViewer(person, Allowance(self._look_every, self._pace))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def _ensure_running(self) -> None:
        self._wake.set()
        if self._task is None or self._task.done():
            self._task = start_task(self._watch(), "homes")

    async def _watch(self) -> None:
        while self._viewers:
            self._wake.clear()
            try:
                await self._look()
            except DatabaseError as error:
                log_failure("App Homes are not updated", error, action="home_failed")
            except Exception as error:
                log.warning(
                    "App Homes are not updated: %s", type(error).__name__, extra={"action": "home_failed"}
                )
            await self._publish_due()
            self._forget()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._wake.wait()

    async def _look(self) -> None:
        if self._clock() - self._looked_at < self._look_every:
            return
        self._looked_at = self._clock()
        async with asyncio.timeout(5.0), self._db.connection() as connection:
            token = await views.change_token(connection)
        if token != self._change_token:
            for viewer in self._viewers.values():
                viewer.stale = True
        self._change_token = token

    async def _publish_due(self) -> None:
        now = self._clock()
        due = [each for each in self._viewers.values() if each.stale and each.not_before <= now]
        room = asyncio.Semaphore(AT_ONCE)

        async def one(viewer: HomeViewer) -> None:
            async with room:
                await self._publish(viewer)

        await asyncio.gather(*(one(viewer) for viewer in due))

    async def _publish(self, viewer: HomeViewer) -> None:
        viewer.stale = False  # before looking: later changes make it stale again
        viewer.not_before = self._clock() + viewer.allowance.spend(self._clock())
        try:
            async with asyncio.timeout(10.0):
                view = await self._draw(viewer)
                shown = hashlib.sha256(json.dumps(view, sort_keys=True).encode()).digest()
                if shown != viewer.shown:
                    answer = await self._client.views_publish(
                        user_id=viewer.person.user_id, view=view, hash=viewer.hash or None
                    )
                    viewer.shown, viewer.hash = shown, str((answer.get("view") or {}).get("hash") or "")
        except SlackError as error:
            self._not_published(viewer, error)
            if isinstance(error, SlackRefused) and error.code != HASH_CONFLICT:
                await self._publish_notice(viewer)
        except DatabaseError as error:
            viewer.stale = True
            log_failure("App Home could not be rendered", error, action="home_failed")
        except Exception as error:
            viewer.stale = True
            log.warning(
                "App Home could not be rendered: %s", type(error).__name__, extra={"action": "home_failed"}
            )

    async def _publish_notice(self, viewer: HomeViewer) -> None:
        view = {"type": "home", "blocks": notice_modal("Home", self._commands.spelled(NOT_SHOWN))["blocks"]}
        viewer.shown, viewer.hash = b"", ""
        with suppress(SlackError, TimeoutError):
            await self._client.views_publish(user_id=viewer.person.user_id, view=view)

    def _not_published(self, viewer: HomeViewer, error: SlackError) -> None:
        """Retry when Slack says, or after a refusal. A hash conflict: another process has published."""
        viewer.stale = True
        if isinstance(error, SlackRefused) and error.code == HASH_CONFLICT:
            if self._viewers.get(viewer.person) is viewer:
                del self._viewers[viewer.person]
            return
        viewer.not_before = self._clock() + (error.seconds or (15 if error.status else 1) * self._pace)
        log.warning("App Home could not be published: %s", error, extra={"action": "home_failed"})

    def _forget(self) -> None:
        oldest = self._clock() - REMEMBERED
        for person in [each.person for each in self._viewers.values() if each.opened_at < oldest]:
            del self._viewers[person]

    def _pause(self) -> float:
        now = self._clock()
        due = [each.not_before for each in self._viewers.values() if each.stale]
        soonest = min([self._looked_at + self._look_every, *due])
        return max(soonest, now + 0.01) - now

    async def _draw(self, viewer: HomeViewer) -> dict[str, Any]:
        person = viewer.person
        if (await self._directory.identify(person)).refusal is not None:
            return {"type": "home", "blocks": notice_modal("Home", NOT_A_MEMBER)["blocks"]}
        lists = PersonalLists(self._db, self._directory, person)
        waiting = await lists.waiting_for_me(viewer.waiting, MAX_WAITING)
        mine = await lists.asked_by_me(viewer.mine, MAX_ROWS)
        running = (await lists.latest_runs(running=True))[:MAX_ROWS]
        decided = await lists.latest_decided(MAX_ROWS)
        links = await self._permalinks.of([each.thread for each in decided if each.thread])
        placed = await self._with_places(person, waiting.lines)
        return home(
            HomeView(
                waiting=placed,
                names=await self._directory.names(each for view in placed for each in named_in(view)),
                mine=mine.lines,
                running=await without_secrets(self._db, running),
                decided=decided,
                waiting_count=waiting.count,
                waiting_pages=_pages(viewer, "waiting", waiting),
                mine_pages=_pages(viewer, "mine", mine),
                cancellable=lists.cancellable(running),
                links={each.id: links[each.thread] for each in decided if each.thread in links},
                grants=await grants.revocable_lines(self._db, self._directory, person),
                limits=await limits.visible(self._db, self._policies.last_loaded, person),
            )
        )

    async def _with_places(self, person: Person, lines: Sequence[RequestLine]) -> list[RequestView]:
        waiting_views = await self._db.read(views.request_views, [line.id for line in lines])
        nonces = await requests.create_places(self._db, [view.id for view in waiting_views], "home", person)
        placed = [replace(view, place_nonce=nonces[view.id]) for view in waiting_views if view.id in nonces]
        with work_for("App Home"):  # redrawn whenever anything changes: nobody waits for it
            return [await clean_view(view) for view in placed]


def _pages(viewer: HomeViewer, which: str, page: ListPage[Any]) -> Pages:
    here = {"waiting": viewer.waiting, "mine": viewer.mine}

    def to(cursor: Cursor | None) -> str | None:
        if cursor is None:
            return None
        there = here | {which: cursor}
        return page_value(PAGE_OF_HOME, **{name: str(each) or None for name, each in there.items()})

    return Pages(back=to(page.back), forward=to(page.forward))
