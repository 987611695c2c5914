"""Writing down what people must be told, inside the transaction of the fact; ``slackbot.delivery`` sends it.

Priorities: a card that changed after its decision, then new cards and run threads, then lines in threads.
Pending rows about the same card are one row (``coalesce_key``): it is drawn from the facts when it is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from agent.domain.request import Change
from agent.store.batch import Batch
from agent.store.ids import new_id
from signoff.canonical import canonical_bytes
from signoff.description import MAX_VALUE, plain
from signoff.values import Person

URGENT, CARD, LINE = 0, 1, 2

MAX_CHANGES = 10
"""Changes of an edit that a line in the thread shows; the details show all."""


@dataclass(frozen=True, slots=True)
class Outlet:
    """A channel of a team; everything told there goes through one drain at a time."""

    team_id: str
    channel_id: str


@dataclass(frozen=True, slots=True)
class Telling:
    """One thing to be told at an outlet, about a request or a run."""

    kind: str  # run_root | run_line | card | thread_line | direct | digest
    outlet: Outlet
    body: Mapping[str, Any]
    request_id: UUID | None = None
    run_id: UUID | None = None
    priority: int = LINE
    coalesce_key: str | None = None
    agent: str | None = None


def card(outlet: Outlet, request_id: UUID, *, new: bool = False) -> Telling:
    """The request's card should show the present state."""
    priority = CARD if new else URGENT
    return Telling(
        "card", outlet, {}, request_id=request_id, priority=priority, coalesce_key=f"card:{request_id}"
    )


def request_line(
    outlet: Outlet, request_id: UUID, line: str, by: Person | None = None, **facts: Any
) -> Telling:
    """A line in the request's thread, its history."""
    who = {"team": by.team_id, "user": by.user_id} if by else {"team": None, "user": None}
    return Telling("thread_line", outlet, {"line": line, **who, **facts}, request_id=request_id)


def edited_line(
    outlet: Outlet, request_id: UUID, by: Person, revision: int, changes: Sequence[Change]
) -> Telling:
    """The thread's word about an edit: values that are long are cut, and more changes than fit are counted."""
    shown = [
        {"path": each.path, "before": _brief(each.before), "after": _brief(each.after)}
        for each in changes[:MAX_CHANGES]
    ]
    more = len(changes) - len(shown)
    return request_line(outlet, request_id, "edited", by, revision=revision, changes=shown, more=more)


def _brief(value: Any) -> Any:
    encoded = canonical_bytes(value).decode()
    return value if len(encoded) <= MAX_VALUE else plain(value)


def run_root(outlet: Outlet, run_id: UUID) -> Telling:
    """The run's first message, whose thread is the conversation."""
    return Telling("run_root", outlet, {}, run_id=run_id, priority=CARD, coalesce_key=f"run:{run_id}")


def run_line(outlet: Outlet, run_id: UUID, line: str, **facts: Any) -> Telling:
    """A line in the run's thread."""
    return Telling("run_line", outlet, {"line": line, **facts}, run_id=run_id)


def unreachable_line(outlet: Outlet, run_id: UUID, request_id: UUID, **facts: Any) -> Telling:
    """The run's thread hears that a request of its cannot be shown; pending ones about one request are one."""
    body = {"line": "unreachable", "request": str(request_id), **facts}
    return Telling("run_line", outlet, body, run_id=run_id, coalesce_key=f"unreachable:{request_id}")


def direct(outlet: Outlet, request_id: UUID | None, run_id: UUID | None, line: str, **facts: Any) -> Telling:
    """A message of its own, in no thread; the request or run is what it came up with."""
    return Telling("direct", outlet, {"line": line, **facts}, request_id=request_id, run_id=run_id)


def digest(outlet: Outlet, agent: str) -> Telling:
    """The card that stands for a flood of this agent's requests should show the present state."""
    key = f"digest:{outlet.team_id}:{outlet.channel_id}:{agent}"
    return Telling("digest", outlet, {}, priority=CARD, coalesce_key=key, agent=agent)


def tell(batch: Batch, tellings: Sequence[Telling]) -> None:
    """Write these down; who goes round the channels finds them."""
    if tellings:
        batch.add_rows(_INSERT, [_row(telling) for telling in _each_once(tellings)])


def _row(telling: Telling) -> dict[str, Any]:
    return {
        "id": new_id(),
        "kind": telling.kind,
        "priority": telling.priority,
        "team_id": telling.outlet.team_id,
        "channel_id": telling.outlet.channel_id,
        "request_id": telling.request_id,
        "run_id": telling.run_id,
        "agent": telling.agent,
        "body": dict(telling.body),
        "coalesce_key": telling.coalesce_key,
    }


def _each_once(tellings: Sequence[Telling]) -> list[Telling]:
    """Without a second one of the same key: one statement cannot count up the same row twice."""
    keyed: dict[str | int, Telling] = {}
    for number, telling in enumerate(tellings):
        keyed.setdefault(telling.coalesce_key or number, telling)
    return list(keyed.values())


_INSERT = """
INSERT INTO delivery (id, kind, priority, team_id, channel_id, request_id, run_id, agent, body, coalesce_key)
SELECT * FROM json_to_recordset(%(rows)s) AS t (
    id uuid, kind delivery_kind, priority smallint, team_id text, channel_id text, request_id uuid, run_id uuid,
    agent text, body jsonb, coalesce_key text)
ON CONFLICT (coalesce_key) WHERE state = 'pending' AND coalesce_key IS NOT NULL
DO UPDATE SET wanted = delivery.wanted + 1, priority = least(delivery.priority, excluded.priority)
"""
