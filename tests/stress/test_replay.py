"""Many judgements are made again in reasonable time."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from agent.database.pools import Database
from agent.domain.checkpoints import load
from agent.domain.replay import Totals, replay
from agent.usecases import judgements
from signoff.values import Action
from tests.integration.conftest import owner  # noqa: F401
from tests.stress.budget import full

POLICY = """
[[checkpoint]]
checkpoint_id = "small"
action_pattern = "process_refund"
when = "facts.price < 100.0"

[[checkpoint]]
checkpoint_id = "large"
action_pattern = "process_refund"
when = "facts.price > 1000.0 && args.reason != 'none'"
"""
MANY = """
INSERT INTO judgement (id, policy_epoch, agent, requester, tool, traits, action, facts, facts_failed, verdict, because)
SELECT uuidv7(), 1, 'refunds', 'U0ADA', 'process_refund',
       '{"version": "1", "requires_approval": false, "read_only": false, "risk": null}', %s,
       convert_to('{"price":' || n %% 2000 || '}', 'UTF8'), false, 'run', ''
FROM generate_series(1, %s) AS n
"""


@pytest.mark.stress
async def test_a_hundred_thousand_judgements_are_made_again_within_a_minute(
    database: Database,
    owner: psycopg.Connection[Any],  # noqa: F811
) -> None:
    """As many as a busy team has in a month: by another policy, with what would be asked then."""
    items = [{"sku": "A-1", "n": 2}, {"sku": "B-2", "n": 1}]
    action = Action(
        "process_refund", "1", {"order_id": 7, "reason": "wrong size", "amount": 150.5, "items": items}
    )
    number = 100 * full(1000)
    owner.execute(MANY, [action.canonical, number])
    totals, policy, changed = Totals(), load(POLICY, filename="c.toml"), 0
    began = time.monotonic()
    async for page in judgements.recorded(database, datetime.now(UTC) - timedelta(days=1)):
        changed += len(list(replay(policy, page, totals)))
    assert time.monotonic() - began < 60
    assert totals.judged == number
    assert changed == totals.verdicts["run", "ask"]
    assert changed == sum(not 100 <= n % 2000 <= 1000 for n in range(1, number + 1))
