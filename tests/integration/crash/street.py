"""A street of lanes: in each lane, a channel, one line is requested, decided and written once.

The service runs as a process that dies and restarts; sandbox, model and database stay.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from sqlalchemy import text

from agent.database.pools import Database
from signoff_demo.sandbox import NotOnScreen, SlackSandbox
from signoff_demo.sandbox.model import ScriptedModel
from signoff_demo.sandbox.person import InteractionResult
from tests.integration.asking import column, rows
from tests.integration.crash.process import Serve

AGENT = '''
from pathlib import Path
from signoff import Agent, tool

SINK = Path({sink!r})


@tool{options}
def write_line(lane: int) -> str:
    """Write a line."""
    with SINK.open("a") as sink:
        sink.write(f"{{lane}}\\n")
    return f"wrote lane {{lane}}"


@tool(facts=lambda lane: {{}})
def write_line_checked(lane: int) -> str:
    """Write a line, which a worker looks at before it claims it."""
    return write_line(lane)


agent = Agent("writer", "You write lines.", [write_line, write_line_checked])
'''
CHECKPOINT = """
[[checkpoint]]
checkpoint_id = "lane-{lane}"
action_pattern = "write_line"
when = "args.lane == {lane}"
channel = "C0LANE{lane}"
approvers = ["S0REVIEWERS"]
on_reject = "tell_model"
"""


async def until(look: Callable[[], Awaitable[Any]], seconds: float, what: object = "") -> Any:
    """Poll at short intervals, for a bounded time."""
    deadline = monotonic() + seconds
    while not (seen := await look()):
        if monotonic() > deadline:
            raise AssertionError(f"nothing to see after {seconds} s: {what() if callable(what) else what}")
        await asyncio.sleep(0.05)
    return seen


@dataclass
class Street:
    slack: SlackSandbox
    model: ScriptedModel
    db: Database
    serve: Serve
    sink: Path
    approved: set[int] = field(default_factory=set)
    """Lanes whose approval was acknowledged."""
    doubted: set[int] = field(default_factory=set)
    tool: str = "write_line"

    async def start(self, fault: str = "", **changes: str) -> None:
        await self.serve.start(fault, changes)
        self.slack.request_url = f"http://127.0.0.1:{self.serve.port}/slack/events"

    def lives(self) -> Street:
        assert self.serve.alive, self.serve.said()
        return self

    # --- what people do -------------------------------------------------------------------------------

    async def ask(self, lane: int) -> InteractionResult:
        task = f"run writer {self.tool} lane={lane}"
        return await self.slack.person("U0ADA").command("/agent", task, f"C0LANE{lane}")

    def cards(self, lane: int) -> list[dict[str, Any]]:
        return [m for m in self.slack.messages(f"C0LANE{lane}") if _about(m, "request")]

    async def card(self, lane: int, seconds: float = 30.0) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            return next(iter(self.cards(lane)), None)

        found = await self.slack.wait_for(look, timeout=seconds)
        assert found is not None
        return found

    async def approve(self, lane: int) -> InteractionResult:
        """An acknowledged approval must not be lost."""
        answer = await self.slack.person("U0GRACE").click(await self.card(lane), "signoff:approve")
        if answer.error is None:
            self.approved.add(lane)
        return answer

    async def play(self, lane: int, *, overdue: bool = False) -> None:
        """Until the service dies."""
        await self.begin(lane)
        await self.card(lane, seconds=30.0)
        if overdue:
            await self.make_overdue(lane)
        else:
            await until(lambda: self._is_approved(lane), 30.0)
        await asyncio.Event().wait()

    # People try again when Slack says so: on a busy machine, looking somebody up may take too long.

    async def begin(self, lane: int, seconds: float = 30.0) -> None:
        """Ask until the lane's run has begun, or the service has died."""
        await until(lambda: self._begins(lane), seconds, self.serve.said)

    async def _begins(self, lane: int) -> bool:
        if not await self._has_begun(lane):
            await self.ask(lane)
        with suppress(AssertionError):  # a run may begin although its acknowledgement came too late
            return bool(await until(lambda: self._has_begun(lane), 5.0))
        return False

    async def _has_begun(self, lane: int) -> bool:
        return not self.serve.alive or bool(await self.column(_BEGUN, lane=f"C0LANE{lane}"))

    async def _is_approved(self, lane: int) -> bool:
        await self.approve(lane)
        return bool(await self.column(_DECIDED, lane=f"C0LANE{lane}"))

    async def make_overdue(self, lane: int) -> None:
        async with self.db.transaction() as tx:
            await tx.execute(text(_TWO_DAYS_PASS), {"lane": f"C0LANE{lane}"})

    async def play_until_death(self, lane: int, *, overdue: bool = False, seconds: float = 60.0) -> int:
        """Until the service dies of its fault; return its status."""
        story = asyncio.create_task(self.play(lane, overdue=overdue))
        try:
            return await self.serve.ends(seconds)
        except TimeoutError:
            outcome = story.exception() if story.done() else "the story was told to its end"
            raise AssertionError(f"alive after {seconds} s: {outcome!r}\n{self.serve.said()}") from None
        finally:
            story.cancel()
            await asyncio.gather(story, return_exceptions=True)

    # --- what must hold in the end --------------------------------------------------------------------

    async def column(self, sql: str, **parameters: Any) -> list[Any]:
        return await column(self.db, sql, **parameters)

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return await rows(self.db, sql)

    def written(self) -> Counter[int]:
        """By lane."""
        lines = self.sink.read_text().split() if self.sink.exists() else []
        return Counter(int(line) for line in lines)

    async def settle_all(self, seconds: float = 30.0) -> None:
        """Until every run has ended and all messages are sent."""

        async def done() -> bool:
            await self._decide_waiting()
            await self._settle_doubts()
            return not await self.column(_UNFINISHED)

        await until(done, seconds, self.serve.said)

    async def _decide_waiting(self) -> None:
        for channel in await self.column(_WAITING):
            lane = int(channel.removeprefix("C0LANE"))
            if self.cards(lane):
                await self._press(lane, "signoff:approve")

    async def _settle_doubts(self) -> None:
        """Retry where nothing was written, Done where something was."""
        for channel in await self.column(_IN_DOUBT):
            lane = int(channel.removeprefix("C0LANE"))
            self.doubted.add(lane)
            await self._press(lane, "signoff:done" if self.written()[lane] else "signoff:retry")

    async def _press(self, lane: int, action: str) -> None:
        try:
            answer = await self.slack.person("U0GRACE").click(self.cards(lane)[0], action)
        except NotOnScreen:
            return  # not on the card yet, or no longer
        if answer.error is None and action == "signoff:approve":
            self.approved.add(lane)

    async def check(self) -> None:
        """No decision lost, nothing executed twice, each card once, threads in order, every audit chain valid."""
        ended = {str(channel): str(outcome) for channel, outcome in await self.rows(_OUTCOMES)}
        lost = {lane for lane in self.approved if ended.get(f"C0LANE{lane}") != "approved"}
        assert not lost, f"acknowledged and lost: {lost}"
        written = self.written()
        assert [lane for lane, times in written.items() if times > 1] == []
        for channel, outcome in ended.items():
            assert written[int(channel.removeprefix("C0LANE"))] == (outcome == "approved"), channel
            assert len(self.cards(int(channel.removeprefix("C0LANE")))) == 1, channel
        self._check_messages()
        assert await self.column(_OUT_OF_ORDER) == []

    def _check_messages(self) -> None:
        """Each delivery is in Slack once."""
        seen: Counter[str] = Counter()
        for channel in self.slack.workspace.channels:
            for root in self.slack.messages(channel):
                for message in [root, *self.slack.thread(channel, root["ts"])[1:]]:
                    seen.update(filter(None, [_about(message, "delivery")]))
        assert [each for each, times in seen.items() if times > 1] == []


def _about(message: dict[str, Any], key: str) -> str | None:
    found: str | None = (message.get("metadata") or {}).get("event_payload", {}).get(key)
    return found


@asynccontextmanager
async def street(url: str, folder: Path, *, lanes: int, options: str = "") -> AsyncIterator[Street]:
    """Sandbox, model and files for this many lanes, without the service."""
    sink = folder / "sink"
    (folder / "lanes.py").write_text(AGENT.format(sink=str(sink), options=options))
    (folder / "checkpoints.toml").write_text("".join(CHECKPOINT.format(lane=n) for n in range(lanes)))
    async with (
        SlackSandbox(rate_limits=False, echo=False) as slack,
        ScriptedModel() as model,
        Database(url, application_name="looking on") as db,
    ):
        people = ["U0ADA", "U0GRACE", "U0LINUS", slack.workspace.bot.user_id]
        for lane in range(lanes):
            slack.workspace.add_channel(f"C0LANE{lane}", f"lane-{lane}", people)
        settings = {
            "DATABASE_URL": url,
            "SLACK_BOT_TOKEN": slack.bot_token,
            "SLACK_SIGNING_SECRET": slack.signing_secret,
            "SLACK_API_URL": slack.api_url,
            "OPENAI_API_KEY": "sk-scripted",
            "OPENAI_BASE_URL": model.base_url,
            "SIGNOFF_AGENTS": "lanes",
            "SIGNOFF_CHANNEL": "C0LANE0",
            "SIGNOFF_PORT": "0",
            "SIGNOFF_DRAIN_SECONDS": "2",
        }
        here = Street(slack, model, db, Serve(settings, folder), sink)
        try:
            yield here
        finally:
            await here.serve.kill()


_TWO_DAYS_PASS = """
UPDATE approval_request SET created_at = created_at - interval '2 days', expires_at = expires_at - interval '2 days'
WHERE status = 'waiting' AND channel_id = :lane
"""
# Overdue requests cannot be approved, although a late click is acknowledged like any other.
_WAITING = (
    "SELECT channel_id FROM approval_request WHERE status = 'waiting' AND expires_at > clock_timestamp()"
)
_BEGUN = "SELECT 1 FROM agent_run WHERE channel_id = :lane"
_DECIDED = (
    "SELECT 1 FROM decision AS d JOIN approval_request AS r ON r.id = d.request_id WHERE channel_id = :lane"
)
_IN_DOUBT = """
SELECT r.channel_id FROM execution AS e JOIN approval_request AS r ON r.id = e.request_id
WHERE e.status = 'in_doubt' AND NOT EXISTS (SELECT 1 FROM settlement AS s WHERE s.execution_id = e.id)
"""
_UNFINISHED = """
SELECT 'run ' || id FROM agent_run WHERE status IN ('working', 'pending_approval') UNION ALL
SELECT 'request ' || id FROM approval_request WHERE status = 'waiting' UNION ALL
SELECT 'delivery ' || id FROM delivery WHERE state = 'pending'
"""
_OUTCOMES = "SELECT channel_id, status::text FROM approval_request"
# Within a thread, earlier events are further up.
_OUT_OF_ORDER = """
SELECT a.id FROM delivery AS a JOIN delivery AS b
ON a.kind = b.kind AND (a.request_id = b.request_id OR a.run_id = b.run_id) AND a.id < b.id
WHERE a.kind IN ('thread_line', 'run_line') AND a.ts::numeric > b.ts::numeric
"""
