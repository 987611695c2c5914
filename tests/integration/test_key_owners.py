"""Who stands behind a program decides nothing that it asks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent import approvals, keys
from agent.domain.errors import Refusal, Refused
from agent.domain.keys import Scope
from agent.store.database import Database
from tests.integration.asking import (
    ADA,
    GRACE,
    LINUS,
    asked_as,
    ballot,
    column,
    question,
    reviewer,
    rule,
    start,
    write,
)

AGENCY = "key:agency"


async def refusal(db: Database, word) -> Refusal:
    with pytest.raises(Refused) as caught:
        await approvals.vote(db, word)
    return caught.value.code


async def test_a_keys_owner_does_not_decide_what_it_asks_for_others(database: Database) -> None:
    """Naming somebody else as the requester does not make the key's owner a reviewer of their own program."""
    await keys.create(database, "agency", [Scope.REQUEST, Scope.ON_BEHALF], by="test", owner=GRACE)
    run_id, (call_id,) = await start(database)
    theirs = question(run_id, call_id, rule(), requester=ADA)
    outside = replace(
        theirs, principal=AGENCY, client_id="r-1", source="api", run_id=None, call_id=None, content=b"c" * 32
    )
    request_id = (await approvals.open(database, outside)).request_id
    asked = await asked_as(database, request_id, call_id, run_id)
    for verdict in ("approve", "reject"):
        assert await refusal(database, ballot(asked, reviewer(GRACE), verdict)) is Refusal.SELF_REVIEW
    assert (await approvals.vote(database, ballot(asked, reviewer(LINUS)))).status == "approved"


async def test_nor_what_a_run_asks_that_it_started(database: Database) -> None:
    """The same for the calls of a run that the key has started on behalf of somebody."""
    await keys.create(database, "agency", [Scope.REQUEST, Scope.ON_BEHALF], by="test", owner=GRACE)
    run_id, (call_id,) = await start(database)
    await write(database, "UPDATE agent_run SET principal = :who WHERE id = :id", who=AGENCY, id=run_id)
    opened = await approvals.open(database, question(run_id, call_id, rule(), requester=ADA))
    asked = await asked_as(database, opened.request_id, call_id, run_id)
    assert await refusal(database, ballot(asked, reviewer(GRACE))) is Refusal.SELF_REVIEW
    assert await column(database, "SELECT status::text FROM approval_request") == ["waiting"]
