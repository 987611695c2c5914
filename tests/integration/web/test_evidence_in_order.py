"""A tool that sorts what is exported by time reads what happened, in the order in which it happened."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slackbot import settings as service_settings
from slackbot.cli import export
from tests.integration import invariants
from tests.integration.web.conftest import GRACE, LINUS, POLICY, Street, until
from tests.integration.web.test_edited import edit
from tests.integration.web.test_executors import claim, report

SHORT = """
[[checkpoint]]
checkpoint_id = "brief"
action_pattern = "brief_*"
timeout = "1s"

[[checkpoint]]
checkpoint_id = "urgent"
action_pattern = "urgent_*"
timeout = "1s"
on_timeout = "escalate"
escalate_to = ["U0LINUS"]
"""

_OUTCOMES = ("request.decided", "request.expired", "request.withdrawn")


@pytest.fixture
def policy() -> str:
    return POLICY + SHORT


async def test_the_export_sorted_by_time_tells_the_story(site: Street) -> None:
    """Opened, edited, voted, escalated, decided, begun and done, of each request: each fact at its event's time."""
    program = await site.program()
    grace, linus = await site.reviewer(), await site.reviewer(LINUS, "linus")
    asked = {name: (await program.ask(name)).json()["id"] for name in ("edited", "no", "gone", "run")}
    money = {"action": "transfer_money", "arguments": {"amount": 5}, "timestamp": None}
    together = [f"together-{n}" for n in range(6)]
    for name in together:
        await program.ask(name, **money)
    await asyncio.gather(*(each.decides(name) for name in together for each in (grace, linus)))
    await program.ask("late", action="brief_note", timestamp=None)
    await program.ask("up", action="urgent_note", timestamp=None)
    await edit(site, asked["edited"])
    await grace.decides("edited", revision=2)
    await linus.decides("no", "rejected", reason="no")
    assert (await program.delete("/pending/gone")).status_code == 200
    await grace.decides("run")
    token = (await claim(program, "run")).json()["token"]
    assert (await report(program, token, "run")).status_code == 200
    await site.house.shows("SELECT status::text FROM approval_request WHERE client_id = 'late'", "expired")

    async def escalated() -> bool:
        return bool(
            await site.house.column("SELECT escalated_at FROM approval_request WHERE client_id = 'up'")
        )

    await until(escalated)
    told = await _exported(site)
    stories = {name: _story(records) for name, records in told.items()}
    done = ["opened", "request.opened", "vote.cast", "vote", "request.decided", "decided"]
    twice = [*done[:4], *done[2:]]
    assert {name: stories[name] for name in together} == dict.fromkeys(together, twice)
    assert stories["edited"] == ["opened", "request.opened", "request.edited", *done[2:]]
    assert stories["no"] == done
    assert stories["gone"] == ["opened", "request.opened", "request.withdrawn", "decided"]
    assert stories["late"] == ["opened", "request.opened", "request.expired", "decided"]
    assert stories["run"] == [
        *done, "begun", "execution.claimed", "execution.succeeded", "finished",
    ]  # fmt: skip
    assert stories["up"][:2] == ["opened", "request.opened"]
    assert "request.escalated" in stories["up"]
    assert await invariants.broken(site.db) == []
    assert {GRACE.user_id, LINUS.user_id} == {
        r["person"]["user_id"] for r in told["together-0"] if "verdict" in r
    }


async def _exported(site: Street) -> dict[str, list[dict[str, Any]]]:
    """By the program's name for each request, in the order of the export."""
    configured = service_settings.read(site.house.environment)
    now = datetime.now(UTC)
    names: dict[str, str] = {}
    found = defaultdict(list)
    async for record in export.records(
        site.db, configured, now - timedelta(days=1), now + timedelta(days=1), audit=True
    ):
        subject = record.get("subject", "")
        request = record.get("request_id") or subject.removeprefix("request:")
        if record["kind"] == "request":
            names[record["id"]] = record["request_id"]
            request = record["id"]
        if request in names:
            found[names[request]].append(dict(record))
    return found


_ORDER = ("opened", "request.opened", "request.edited", "request.escalated", "vote.cast", "vote",
          *_OUTCOMES, "decided", "begun", "execution.claimed", "execution.succeeded", "finished")  # fmt: skip
"""Of what has the same time, which is what one transaction wrote."""


def _story(records: list[dict[str, Any]]) -> list[str]:
    moments: list[tuple[str | None, str]] = []
    for record in records:
        if record["kind"] == "request":
            execution = record["execution"] or {}
            moments += [
                (record["timestamp"], "opened"),
                (record["decided_at"], "decided"),
                (execution.get("started_at"), "begun"),
                (execution.get("finished_at"), "finished"),
            ]
        else:
            moments.append((record["at"], record.get("event", "vote")))
    happened = sorted((at, _ORDER.index(what)) for at, what in moments if at is not None)
    return [_ORDER[n] for _, n in happened]
