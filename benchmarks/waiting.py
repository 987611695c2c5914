from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import astuple, dataclass
from typing import Any
from uuid import UUID

from agent.database.pools import Database
from agent.domain.people import Standing
from agent.domain.request import Ballot, Place, Verdict
from agent.domain.request_view import RequestView
from agent.domain.run import ProposedCall, Turn
from agent.runtime.joint_writes import JointWrites
from agent.runtime.judging.run_calls import read_action
from agent.runtime.tool import Tool
from agent.store import views
from agent.store.outbox import Destination
from agent.store.requests import NewRequest
from agent.usecases import requests, runs
from agent.usecases.runs import MadeTurn, NewRun
from benchmarks.ground import settle
from benchmarks.payments import POLICY, pay, price
from signoff.values import Person
from signoff_demo.sandbox import SlackSandbox
from slackbot.cards import request_card

TEAM, CHANNEL = "T0SANDBOX", "C0REVIEW"
ADA, GRACE = Person(TEAM, "U0ADA"), Person(TEAM, "U0GRACE")
FINANCE = "S0FINANCE"
LANES = 10
_orders = itertools.count(1)


@dataclass(frozen=True)
class Waiting:
    """`place` is that of its card."""

    order: int
    request_id: str
    nonce: str
    ts: str

    def ballot(self) -> Ballot:
        """A click of Grace on the request's card."""
        grace = Standing(GRACE, frozenset({FINANCE}))
        place = Place(self.nonce, "channel", CHANNEL, self.ts)
        return Ballot(
            UUID(self.request_id), 1, Verdict.APPROVE, grace, {GRACE: grace}, "slack_button", place=place
        )


Row = list[Any]
"""A waiting request in a form that can be passed to another process."""


async def seed(url: str, slack: SlackSandbox, count: int, tool: Tool = pay) -> list[Row]:
    """Each request has its own run and a posted card; no other work is pending."""
    made = await ask(url, slack, count, tool)
    await asyncio.to_thread(settle, url, [(each.ts, each.nonce) for each in made])
    return [list(astuple(each)) for each in sorted(made, key=lambda each: each.order)]


async def ask(url: str, slack: SlackSandbox, count: int, tool: Tool = pay) -> list[Waiting]:
    """Create requests as the use cases leave them, with undelivered messages."""
    numbers = iter([next(_orders) for _ in range(count)])
    made: list[Waiting] = []

    async def lane(db: Database) -> None:
        for order in numbers:
            view = await _ask(db, order, tool)
            made.append(_posted(slack, view))

    hasty = f"{url}&options=-c%20synchronous_commit%3Doff"  # nothing is measured here
    async with Database(hasty, application_name="bench seed", pool_size=LANES) as db:
        await asyncio.gather(*(lane(db) for _ in range(LANES)))
    return made


def _posted(slack: SlackSandbox, view: RequestView) -> Waiting:
    """Post the card without waiting for Slack's pace."""
    card = request_card(view)
    channel = slack.workspace.channels[CHANNEL]
    message = {"user": slack.workspace.bot.user_id, "bot_id": slack.workspace.bot.bot_id}
    stored = slack.workspace.post(channel, message | {"text": card.text, "blocks": card.blocks})
    order = int(view.action.arguments["order_id"])
    return Waiting(order, str(view.id), view.place_nonce, stored["ts"])


async def count(db: Database, ballot: Ballot) -> None:
    [counted] = await requests.count_votes(db, [ballot], wait=True)
    if isinstance(counted, Exception):
        raise counted


async def _ask(db: Database, order: int, tool: Tool) -> RequestView:
    started = await runs.start(
        db, NewRun("payments", "1", f"pay order {order}", "bench", ADA, "slack", TEAM, "C0AGENTS")
    )
    joint = JointWrites(db, "seed")
    leased = await joint.lease(started.run_id)
    if leased is None:
        raise RuntimeError("somebody else works on the run")
    arguments = json.dumps({"order_id": order})
    turn = Turn("Ada asks for it.", (ProposedCall("call_0", tool.name, arguments),), 10, leased.heard)
    await joint.turns.join(MadeTurn(leased.lease, turn))
    async with db.connection() as connection:
        (call,) = await views.calls(connection, started.run_id)
    opened = await requests.open(db, _question(started.run_id, call.id, order, tool))
    async with db.connection() as connection:
        view = await views.request_view(connection, opened.request_id)
    if view is None:
        raise RuntimeError("the request is not there")
    return view


def _question(run_id: UUID, call_id: UUID, order: int, tool: Tool) -> NewRequest:
    fields: dict[str, Any] = {
        "rule": POLICY.rules[0],
        "action": read_action(tool, json.dumps({"order_id": order})),
        "facts": price(order) if tool.facts else None,
        "description": f"Pay order {order}",
        "rationale": "Ada asks for it.",
        "context": {"task": f"pay order {order}"},
        "agent": "payments",
        "agent_version": "1",
        "requester": ADA,
        "requester_asserted": "slack",
        "destination": Destination(TEAM, CHANNEL),
        "client_id": str(call_id),
        "signature_digest": tool.signature.digest,
        "run_id": run_id,
        "call_id": call_id,
    }
    return NewRequest(**fields)
