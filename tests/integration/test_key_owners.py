"""Who stands behind a program decides nothing that it asks."""

from __future__ import annotations

from functools import partial

import pytest

from agent.database.pools import Database
from agent.domain.api_keys import Scope
from agent.domain.errors import Refusal, Refused
from agent.domain.request import ExecutionStatus
from agent.usecases import api_keys, calls, requests
from agent.usecases.calls import Outcome
from tests.integration import alone
from tests.integration.asking import (
    ADA,
    GRACE,
    LINUS,
    Asked,
    asked_as,
    ballot,
    column,
    programs_question,
    question,
    reviewer,
    rule,
    start,
    write,
)

AGENCY = "key:agency"


async def ask_with_key(db: Database) -> Asked:
    """A request of the only key, on behalf of Ada."""
    (key_id,) = await column(db, "SELECT id FROM api_key")
    theirs = programs_question(rule(), requester=ADA, principal=AGENCY, api_key_id=key_id, content=b"c" * 32)
    request_id = (await requests.open(db, theirs)).request_id
    return await asked_as(db, request_id, request_id, request_id)


async def refusal(db: Database, word) -> Refusal:
    with pytest.raises(Refused) as caught:
        await alone.vote(db, word)
    return caught.value.code


async def test_a_keys_owner_does_not_decide_what_it_asks_for_others(database: Database) -> None:
    """Naming somebody else as the requester does not make the key's owner a reviewer of their own program."""
    await api_keys.create(database, "agency", [Scope.REQUEST, Scope.ON_BEHALF], by="test", owner=GRACE)
    asked = await ask_with_key(database)
    for verdict in ("approve", "reject"):
        assert await refusal(database, ballot(asked, reviewer(GRACE), verdict)) is Refusal.SELF_REVIEW
    assert (await alone.vote(database, ballot(asked, reviewer(LINUS)))).status == "approved"


async def test_nor_what_a_run_asks_that_it_started(database: Database) -> None:
    """The same for the calls of a run that the key has started on behalf of somebody."""
    await api_keys.create(database, "agency", [Scope.REQUEST, Scope.ON_BEHALF], by="test", owner=GRACE)
    (key_id,) = await column(database, "SELECT id FROM api_key")
    run_id, (call_id,) = await start(database, principal=AGENCY, api_key_id=key_id)
    opened = await requests.open(database, question(run_id, call_id, rule(), requester=ADA))
    asked = await asked_as(database, opened.request_id, call_id, run_id)
    assert await refusal(database, ballot(asked, reviewer(GRACE))) is Refusal.SELF_REVIEW
    assert await column(database, "SELECT status::text FROM approval_request") == ["waiting"]
    approved = await alone.vote(database, ballot(asked, reviewer(LINUS)))
    claim = await alone.claim(database, call_id, worker="w", idempotent=False)
    assert approved.status == "approved"
    assert claim is not None
    await alone.report(database, claim, Outcome(ExecutionStatus.IN_DOUBT, "the line went dead"))
    with pytest.raises(Refused) as caught:
        await requests.settle(database, claim.execution_id, reviewer(GRACE), "retry")
    assert caught.value.code is Refusal.SELF_REVIEW
    await requests.settle(database, claim.execution_id, reviewer(LINUS), "done")


async def test_nor_what_became_of_it_outside(database: Database) -> None:
    """A claim of the key's own that fell silent is settled by others."""
    secret = await api_keys.create(
        database, "agency", [Scope.REQUEST, Scope.ON_BEHALF], by="test", owner=GRACE
    )
    principal = await api_keys.authenticate(database, secret)
    assert principal is not None
    asked = await ask_with_key(database)
    await alone.vote(database, ballot(asked, reviewer(LINUS)))
    claim = partial(alone.claim, database, asked.call_id, worker=principal.name, idempotent=False)
    claimed = await claim(token=b"1" * 32)
    assert claimed is not None
    await write(database, "UPDATE execution SET lease_until = clock_timestamp() - interval '1 s'")
    assert await calls.rescue(database) == 1
    with pytest.raises(Refused) as caught:
        await requests.settle(database, claimed.execution_id, reviewer(GRACE), "retry")
    assert caught.value.code is Refusal.SELF_REVIEW
    await requests.settle(database, claimed.execution_id, reviewer(LINUS), "retry")
    again = await claim(token=b"2" * 32)
    assert again is not None
    assert again.attempt == 2
