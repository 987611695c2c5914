"""Decided requests: originals made by the service, and very many copies over a year.

Agents, checkpoints, risks, people, words and forms of the copies vary, beside what varies among waiting ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg

from agent.database.pools import Database
from agent.domain.request import Together, Verdict
from agent.store import views
from agent.usecases import search
from agent.usecases.forgetting import KEPT_DAYS
from benchmarks.ground import settle
from benchmarks.multitude import CHANNELS, CHUNK, GROUPS, MINE, PEOPLE, Copies, Tables, copying
from benchmarks.side import Side
from benchmarks.waiting import ADA, CHANNEL, FINANCE, GRACE, ask, count
from signoff_demo.sandbox import SlackSandbox
from slackbot.masking.search_words import words_of_request

AGENTS = 40
DECIDERS = 50
CUSTOMERS = 5000
DAYS = 365
FORM = 8
"""Votes of one form."""

REJECTED, TOGETHER = 0, 1
"""Of ten blocks, which are so long that each has copies of every audience: one is rejected, with a reason, and one is
decided in forms.
"""

_ID_AT = """
CREATE FUNCTION pg_temp.id_at(at timestamptz) RETURNS uuid LANGUAGE sql VOLATILE AS $$
SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7'
        || substr(md5(random()::text), 1, 3) || '8' || substr(md5(random()::text), 1, 15))::uuid
$$
"""
_IDS = f"""
CREATE TEMP TABLE copies AS
SELECT *, pg_temp.id_at(born) AS request, pg_temp.id_at(born) AS run, pg_temp.id_at(born) AS call,
       pg_temp.id_at(decided) AS execution, born + interval '1 day' AS until, CAST(NULL AS text) AS terms
FROM (
    SELECT *, born + interval '1 minute' * (1 + n %% 59) AS decided FROM (
        SELECT n, CASE WHEN n %% {MINE} < 2 THEN '{FINANCE}' ELSE 'S0TEAM' || n %% {GROUPS} END AS reviewers,
               CASE WHEN n %% {MINE} < 2 THEN '{CHANNEL}' ELSE 'C0TEAM' || n %% {CHANNELS} END AS channel,
               CASE WHEN n %% {MINE} < 2 THEN '{GRACE.user_id}' ELSE 'U0JUDGE' || n %% {DECIDERS} END AS decider,
               'U0PERSON' || n %% {PEOPLE} AS person, 'agent' || n %% {AGENTS} AS agent,
               'customer' || n %% {CUSTOMERS} AS customer,
               (ARRAY['low', 'medium', 'medium', 'high'])[1 + n %% 4] AS risk,
               md5('form' || n / {FORM})::uuid AS form,
               now() - interval '1 hour' - interval '{DAYS} days' * (%(last)s - n) / %(count)s AS born
        FROM generate_series(%(first)s::int, %(to)s::int) AS n
        WHERE n / {MINE} %% 10 = ANY(%(blocks)s)) AS each) AS each
"""

_BORN, _ENDED = "c.born", "c.decided + interval '1 s'"
_TABLES: Tables = {
    "agent_run": (
        "t.id = o.run_id",
        {
            "id": "c.run",
            "agent": "c.agent",
            "start_key": "NULL",
            "requester_user_id": "c.person",
            "thread_ts": "c.n::text",
            "created_at": _BORN,
            "updated_at": _ENDED,
        },
    ),
    "run_message": (
        "t.run_id = o.run_id",
        {"run_id": "c.run", "source_key": "NULL", "created_at": _BORN},
    ),
    "tool_call": (
        "t.run_id = o.run_id",
        {
            "id": "c.call",
            "run_id": "c.run",
            "agent": "c.agent",
            "created_at": _BORN,
            "announced_at": _BORN,
            "answered_at": _ENDED,
        },
    ),
    "approval_request": (
        "t.id = o.id",
        {
            "id": "c.request",
            "run_id": "c.run",
            "call_id": "c.call",
            "client_id": "c.call::text",
            "agent": "c.agent",
            "checkpoint_id": "c.agent",
            "risk": "c.risk::risk",
            "requester_user_id": "c.person",
            "approvers": "jsonb_build_array(c.reviewers)",
            "channel_id": "c.channel",
            "created_at": _BORN,
            "expires_at": "c.until",
            "decided_at": "c.decided",
        },
    ),
    "request_revision": (
        "t.request_id = o.id",
        {
            "request_id": "c.request",
            "description": "'Pay order ' || c.n || ' of ' || c.customer",
            "created_at": _BORN,
        },
    ),
    "card_place": (
        "t.request_id = o.id AND t.surface = 'channel'",
        {
            "nonce": "replace(c.request::text, '-', '')",
            "request_id": "c.request",
            "channel_id": "c.channel",
            "ts": "c.n || '.000100'",
            "created_at": _BORN,
        },
    ),
    "delivery": (
        # As in a database that has filled over a year: older messages are deleted.
        f"(t.request_id = o.id OR t.run_id = o.run_id) AND c.decided > now() - interval '{KEPT_DAYS} days'",
        {
            "id": "pg_temp.id_at(c.decided)",
            "channel_id": "CASE WHEN t.request_id IS NULL THEN t.channel_id ELSE c.channel END",
            "request_id": "CASE WHEN t.request_id IS NULL THEN NULL ELSE c.request END",
            "run_id": "CASE WHEN t.run_id IS NULL THEN NULL ELSE c.run END",
            "coalesce_key": "NULL",
            "created_at": "c.decided",
        },
    ),
    "vote": (
        "t.request_id = o.id",
        {
            "id": "pg_temp.id_at(c.decided)",
            "request_id": "c.request",
            "user_id": "c.decider",
            "together": "CASE WHEN t.together IS NOT NULL THEN c.form END",
            "created_at": "c.decided",
        },
    ),
    "decision": (
        "t.request_id = o.id",
        {"request_id": "c.request", "user_id": "c.decider", "decided_at": "c.decided"},
    ),
    "execution": (
        "t.request_id = o.id",
        {
            "id": "c.execution",
            "call_id": "c.call",
            "request_id": "c.request",
            "lease_until": "c.decided",
            "started_at": "c.decided",
            "finished_at": _ENDED,
        },
    ),
    "request_search": (
        "t.request_id = o.id",
        {
            "request_id": "c.request",
            "words": "array_to_tsvector(array_replace(array_replace(tsvector_to_array(t.words),"
            f" lower('{ADA.user_id}'), lower(c.person)), lower('{GRACE.user_id}'), lower(c.decider))"
            " || ARRAY[c.n::text, c.agent, c.customer, '_c' || c.agent, '_h' || c.channel, '_r' || c.risk])",
        },
    ),
}
_FORM = UUID(int=0)
_EXECUTION = "SELECT id::text FROM execution WHERE request_id = %s"


@dataclass(frozen=True)
class Originals:
    """Ids of the requests that are copied."""

    approved: str
    rejected: str
    together: str

    def blocks(self) -> dict[str, list[int]]:
        """Which of ten blocks are copies of which request."""
        others = [block for block in range(10) if block not in (REJECTED, TOGETHER)]
        return {self.approved: others, self.rejected: [REJECTED], self.together: [TOGETHER]}


async def originals(slack: SlackSandbox, url: str, logs: Path) -> Originals:
    """Ask and decide, run the approved calls to their end, and store the words."""
    approved, rejected, together = made = await ask(url, slack, 3)
    wrong = f"Wrong amount of order {rejected.order}"
    async with Database(url, application_name="bench seed") as db:
        await count(db, replace(rejected.ballot(), verdict=Verdict.REJECT, reason=wrong))
        view = await db.read(views.request_view, UUID(together.request_id))
        if view is None:
            raise RuntimeError("the request is not there")
        form = Together(_FORM, view.digest)
        await count(db, replace(together.ballot(), path="slack_together", place=None, together=form))
    async with Side("benchmarks.ours", logs / "decided.log", url, slack.api_url) as side:
        await side.ask("throughput", requests=[list(astuple(approved))], at_once=1)
        await side.ask("idle")
    async with Database(url, application_name="bench seed") as db:
        while await search.store_words(db, words_of_request):
            pass
    await asyncio.to_thread(settle, url, [(each.ts, each.nonce) for each in made])
    return Originals(approved.request_id, rejected.request_id, together.request_id)


async def multiply_decided(url: str, of: Originals, number: int, *, after: int = 0) -> None:
    """Create copies over the last year; the database, vacuumed, has ``after`` already."""
    await asyncio.to_thread(_multiply, url, of, number, after)


def _multiply(url: str, of: Originals, number: int, after: int) -> None:
    with copying(url) as connection:
        connection.execute(_ID_AT)
        kinds = [
            (Copies(connection, each, _TABLES, _names(connection, each)), blocks)
            for each, blocks in of.blocks().items()
        ]
        last = after + number
        for first in range(after + 1, last + 1, CHUNK):
            given: dict[str, Any] = {"first": first, "to": min(last, first + CHUNK - 1)}
            given |= {"last": last, "count": number}
            for copies, blocks in kinds:
                with connection.transaction():
                    copies.chunk(_IDS, given | {"blocks": blocks})


def _names(connection: psycopg.Connection[Any], request_id: str) -> Mapping[str, str]:
    """What of the original's events differs, beside its ids."""
    names = {
        "form": str(_FORM),
        "agent": "payments",
        "person": ADA.user_id,
        "decider": GRACE.user_id,
        "risk": "medium",
    }
    for (execution,) in connection.execute(_EXECUTION, [request_id]):
        names["execution"] = execution
    return names
