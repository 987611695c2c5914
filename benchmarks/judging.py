from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from agent.database.pools import Database
from agent.domain import checkpoints
from agent.domain.field_constraints import Between, Exact
from agent.domain.grants import MAX_LIVE
from agent.domain.people import Standing
from agent.domain.request import Ballot, Place, Verdict
from agent.domain.run import ProposedCall, Turn
from agent.runtime.agents import Agent, Registry
from agent.runtime.calls import advance_call
from agent.runtime.heartbeat import Heartbeat
from agent.runtime.joint_writes import JointWrites
from agent.runtime.policy_in_force import PolicyInForce
from agent.runtime.services import Services
from agent.runtime.tool import tool
from agent.store import views
from agent.store.outbox import Destination
from agent.usecases import grants, limits, requests, runs
from agent.usecases.grants import GrantProposal
from agent.usecases.runs import MadeTurn, NewRun
from benchmarks.ground import owner
from benchmarks.ours import AtOnce
from benchmarks.report import Line
from benchmarks.setting import Setting
from benchmarks.stats import Rounds, median, pooled
from benchmarks.waiting import ADA, CHANNEL, FINANCE, GRACE, TEAM, count
from slackbot.reviewing.grants import SlackGrantChecks

LIMITS = 20
USES = 10_000
"""Uses of each limit within its window."""

LETTER = "Dear customer, " * 2_730
"""40 KB."""

WARM = 10
ASKING = """
[defaults]
channel = "C0REVIEW"

[grants]
max_for = "7d"
max_uses = 100

[[checkpoint]]
checkpoint_id = "letters"
action_pattern = "send"
approvers = ["S0FINANCE"]
allow_grants = true
"""
ALLOWING = '[defaults]\nunmatched = "allow"\n'
LIMIT = """
[[limit]]
name = "limit-{n}"
action_pattern = "send"
of = "args.price"
per = "all"
within = "24h"
max = 1e9
"""
BOUNDS = "".join(LIMIT.format(n=n) for n in range(LIMITS))
_FILL = """
INSERT INTO limit_use (limit_name, key, subject, amount, settled, at)
SELECT 'limit-' || l, gen_random_uuid(), 'all', 12.5, true, clock_timestamp() - random() * interval '24 hours'
FROM generate_series(0, %s - 1) AS l, generate_series(1, %s) AS n
"""


@tool
def send(letter: str, price: int) -> str:
    """Send a letter."""
    return f"sent for {price}"


AGENT = Agent("letters", "Send letters.", [send])


async def row_14(setting: Setting) -> list[Line]:
    """Judge a call, with and without grants on its tool and heavily used limits."""
    urls = [setting.ground.fresh(f"bench_judging_{name}") for name in ("without", "within")]
    async with AsyncExitStack() as stack:
        plain, bounded = [await stack.enter_async_context(_opened(url)) for url in urls]
        for _ in range(MAX_LIVE):
            await _give(_services(bounded, ASKING))
        await asyncio.to_thread(_fill, urls[1])
        without, asked = await _in_turns(
            setting, _services(plain, ASKING), _services(bounded, ASKING + BOUNDS)
        )
        free, limited = await _in_turns(
            setting, _services(plain, ALLOWING), _services(bounded, ALLOWING + BOUNDS)
        )
    uses = f"{LIMITS} limits of {USES:,} uses each"
    return [
        _added(f"{MAX_LIVE} grants and {uses} add to a call that is asked about, p50", asked, without),
        _added(f"{uses} add to a call that is let run, claimed and run, p50", limited, free),
    ]


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[Database]:
    async with Database(url, application_name="bench judging") as db:
        await db.open()
        yield db


def _added(what: str, ours: Rounds, without: Rounds) -> Line:
    more = median(pooled(ours)) - median(pooled(without))
    return Line(
        14,
        what,
        f"{more:.1f} ms",
        f"without: {median(pooled(without)):.1f} ms",
        goal="<= 3 ms",
        met=more <= 3,
        samples={"ours": ours, "without": without},
    )


def _services(db: Database, policy: str) -> Services:
    return Services(
        db=db,
        policies=PolicyInForce(db, checkpoints.load(policy, filename="checkpoints.toml")),
        registry=Registry([AGENT]),
        model=AtOnce("none", api_key="none"),
        heartbeat=Heartbeat(db, "judge"),
        worker="judge",
        destination=lambda channel: Destination(TEAM, channel or CHANNEL),
        grant_checks=SlackGrantChecks(lambda: None),
    )


async def _in_turns(setting: Setting, *sides: Services) -> list[Rounds]:
    found: list[Rounds] = [[] for _ in sides]
    for number in range(setting.size.rounds + 1):
        for side, rounds in zip(sides, found, strict=True):
            count = setting.size.votes if number else WARM
            samples = [await _judged(side) for _ in range(count)]
            if number:
                rounds.append(samples)
    return found


async def _judged(services: Services) -> float:
    """Milliseconds; afterwards the request is withdrawn, and the sweep has settled its uses."""
    call_id, taken = await _judge(services)
    request_id = await _request_of(services.db, call_id)
    if request_id is not None:
        await requests.withdraw(services.db, request_id, ADA, None)
    await limits.settle_ended(services.db)
    return taken


async def _request_of(db: Database, call_id: UUID) -> UUID | None:
    async with db.connection() as connection:
        found = await views.open_call_details(connection, [call_id])
    return found[call_id].call.request_id if found else None


async def _judge(services: Services, price: int = 500) -> tuple[UUID, float]:
    """Milliseconds until the call of a new run can go no further by itself."""
    db = services.db
    started = await runs.start(db, NewRun("letters", "1", "send it", "bench", ADA, "slack", TEAM, "C0AGENTS"))
    joint = JointWrites(db, "seed")
    leased = await joint.lease(started.run_id)
    if leased is None:
        raise RuntimeError("somebody else works on the run")
    arguments = json.dumps({"letter": LETTER, "price": price})
    turn = Turn("Ada asks for it.", (ProposedCall("call_0", "send", arguments),), 10, leased.heard)
    await joint.turns.join(MadeTurn(leased.lease, turn))
    async with db.connection() as connection:
        (call,) = await views.calls(connection, started.run_id)
    begun = time.perf_counter()
    await advance_call(services, call.id)
    return call.id, (time.perf_counter() - begun) * 1e3


async def _give(services: Services) -> None:
    """The grant matches the whole letter, but not its price."""
    call_id, _ = await _judge(services, price=5)
    origin = await _request_of(services.db, call_id)
    if origin is None or services.policy.grants is None:
        raise RuntimeError("nobody was asked")
    await _approve(services.db, origin)
    wish: dict[str, Any] = {
        "arguments": {"letter": Exact(LETTER), "price": Between(Decimal(1), Decimal(10))},
        "facts": None,
        "anyone": True,
        "lasts": timedelta(days=1),
        "max_uses": 100,
    }
    destination = services.destination(None)
    given = GrantProposal(origin=origin, by=GRACE, **wish)
    opened = await grants.propose(services.db, given, services.policy.grants, {}, destination)
    await _approve(services.db, opened.request_id)


async def _approve(db: Database, request_id: UUID) -> None:
    async with db.connection() as connection:
        view = await views.request_view(connection, request_id)
    if view is None:
        raise RuntimeError("the request is not there")
    grace = Standing(GRACE, frozenset({FINANCE}))
    place = Place(view.place_nonce, "channel", CHANNEL, "1700000000.000100")
    await count(
        db, Ballot(request_id, 1, Verdict.APPROVE, grace, {GRACE: grace}, "slack_button", place=place)
    )


def _fill(url: str) -> None:
    with owner(url) as connection:
        connection.execute(_FILL, [LIMITS, USES])
        connection.execute("VACUUM ANALYZE")
