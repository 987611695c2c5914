"""Lists and pages as people read them, of a database with many decided requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlencode

import psutil

from benchmarks.clicks import serving
from benchmarks.counted import seconds, server_cpu
from benchmarks.ground import owner
from benchmarks.look import REST, WARM_PAGES, Visits, hush, signed_in
from benchmarks.setting import Setting
from benchmarks.waiting import GRACE

HISTORY = "/inbox/history"
PAGES = {
    "inbox": "inbox page",
    "history": "history",
    "since": "history: since and until",
    "id": "history: the beginning of an ID",
    "requester": "history: requester",
    "decider": "history: decided by",
    "person": "history: person",
    "checkpoint": "history: checkpoint",
    "agent": "history: agent",
    "risk": "history: risk",
    "channel": "history: channel",
    "status": "history: rejected",
    "expired": "history: expired, of which there are none",
    "form": "history: one form",
    "oldest": "history: oldest first",
    "deadline": "history: deadline first",
    "everything": "history: everything",
    "common": "search: a common word",
    "rare": "search: a rare word",
    "nowhere": "search: a word that stands nowhere",
    "of_agent": "search: a common word of one agent",
    "runs": "runs",
    "reports": "reports",
    "month": "reports: 90 days",
    "home": "App Home",
    "todo": "/approvals",
    "mine": "/approvals mine",
}
HOMES = 6

_SOMEBODY = """
SELECT r.id::text, r.agent, r.requester_user_id, r.channel_id, v.together::text, r.decided_at::date::text
FROM approval_request AS r JOIN vote AS v ON v.request_id = r.id
WHERE v.user_id = %s AND v.together IS NOT NULL ORDER BY r.decided_at DESC OFFSET %s LIMIT 1
"""
BACK = 20
"""How far the filters' request is from the newest, so that its agent has more than the originals."""


@dataclass(frozen=True)
class Reading:
    """Milliseconds of each page, milliseconds of CPU of service and PostgreSQL for one, and memory in MB."""

    memory: float
    pages: dict[str, list[float]]
    cpu: dict[str, float]


async def read(setting: Setting, url: str, *, only: tuple[str, ...] = ()) -> Reading:
    """Visit each page often, as Grace. She reviews a tenth of the requests and sees her channels'."""
    cookie = await signed_in(url)
    paths = await asyncio.to_thread(_paths, url)
    async with serving(url, setting.slack, setting.ground.home) as clicker:
        visits = Visits(setting, clicker, cookie)
        process = psutil.Process(clicker.pid)
        visit_of: dict[str, Callable[[], Awaitable[float]]] = {
            **{
                name: partial(visits.page, path, b"</html>" if name != "id" else b"")
                for name, path in paths.items()
            },
            "todo": partial(visits.command, GRACE.user_id, "", b'"blocks"'),
            "mine": visits.mine,
            "home": visits.home,
        }
        await hush(url)
        await asyncio.sleep(min(REST, setting.size.window))
        found: dict[str, list[float]] = {}
        cpu: dict[str, float] = {}

        for name, visit in visit_of.items():
            if only and name not in only:
                continue
            count = HOMES if name == "home" else setting.size.clicks
            for _ in range(WARM_PAGES):
                await visit()
            before = seconds(process) + server_cpu(setting.ground)
            found[name] = [await visit() for _ in range(count)]
            cpu[name] = (seconds(process) + server_cpu(setting.ground) - before) * 1e3 / count
        return Reading(process.memory_info().rss / 2**20, found, cpu)


def _paths(url: str) -> dict[str, str]:
    """The pages' addresses, with a value for each filter that many requests have, as far as there are many."""
    with owner(url) as connection:
        row = None
        for back in (BACK, 0):
            row = row or connection.execute(_SOMEBODY, [GRACE.user_id, back]).fetchone()
    if row is None:
        raise RuntimeError("nobody has decided anything in a form")
    request_id, agent, requester, channel, form, day = row
    filters = {
        "since": {"since": "2020-01-01", "until": day},
        "id": {"q": request_id[:8]},
        "requester": {"requester": requester},
        "decider": {"decider": GRACE.user_id},
        "person": {"person": GRACE.user_id},
        "checkpoint": {"rule": agent},
        "agent": {"agent": agent},
        "risk": {"risk": "medium"},
        "channel": {"channel": channel},
        "status": {"status": "rejected"},
        "expired": {"status": "expired"},
        "form": {"together": form},
        "oldest": {"sort": "oldest"},
        "deadline": {"sort": "deadline"},
        "everything": {"status": "any"},
        "common": {"q": "order"},
        "rare": {"q": "customer77"},
        "nowhere": {"q": "zebra"},
        "of_agent": {"q": "order", "agent": agent},
    }
    history = {name: f"{HISTORY}?{urlencode(asked)}" for name, asked in filters.items()}
    pages = {"runs": "/inbox/runs", "reports": "/inbox/reports", "month": "/inbox/reports?days=90"}
    return {"inbox": "/inbox", "history": HISTORY, **history, **pages}
