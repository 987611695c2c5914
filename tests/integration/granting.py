from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from agent.database.pools import Database
from agent.domain.facts import Facts
from agent.domain.field_constraints import Between, Constraint
from agent.domain.grants import CallToCover
from agent.domain.people import Standing
from agent.domain.rules import GrantLimits, Rule
from agent.usecases import grants, policy
from agent.usecases.calls import CallToClaim
from agent.usecases.calls.attempts import Claim, ClaimTerms
from agent.usecases.grants import Cover, GrantProposal
from signoff.values import Action, Person
from tests.integration import alone
from tests.integration.asking import (
    ADA,
    GRACE,
    REVIEWS,
    Asked,
    ask,
    asked_as,
    ballot,
    reviewer,
    rows,
    rule,
    start,
)

LIMITS = GrantLimits(max_for=timedelta(days=7), max_uses=100)


def granting_rule(**changes: Any) -> Rule:
    return rule(allow_grants=True, **changes)


def grant_proposal(asked: Asked, by: Person = GRACE, **changes: Any) -> GrantProposal:
    """Refunds of any order up to 2,000, three times and up to 4,500 in total, for any requester."""
    arguments: Mapping[str, Constraint] = {"order_id": Between(Decimal(0), Decimal(100))}
    fields: dict[str, Any] = {
        "origin": asked.request_id,
        "by": by,
        "arguments": arguments,
        "facts": {"price": Between(Decimal(0), Decimal(2000))},
        "anyone": True,
        "lasts": timedelta(hours=8),
        "max_uses": 3,
        "sum_of": "facts.price",
        "max_sum": Decimal(4500),
    }
    return GrantProposal(**(fields | changes))


async def propose(
    db: Database, wanted: GrantProposal, limits: GrantLimits | None = LIMITS, **choices: tuple[object, ...]
) -> UUID:
    """Open the grant's request under the policy in force, without votes."""
    epoch = await policy.epoch_in_force(db)
    return (await grants.propose(db, wanted, limits, choices, REVIEWS, policy_epoch=epoch)).request_id


async def approve(db: Database, asked: Asked, *people: Person) -> None:
    """One after the other."""
    standings = [reviewer(each) for each in people]
    for each in standings:
        await alone.vote(db, ballot(asked, each, others=standings))


async def allow(
    db: Database, terms: Rule | None = None, by: Iterable[Person] = (GRACE,), **changes: Any
) -> UUID:
    """A valid grant: these people approved a call, and then calls like it."""
    people = tuple(by)
    asked = await ask(db, terms or granting_rule())
    await approve(db, asked, *people)
    grant_id = await propose(db, grant_proposal(asked, people[0], **changes))
    await approve(db, await asked_as(db, grant_id, asked.call_id, asked.run_id), *people)
    return grant_id


def to_cover(terms: Rule | None = None, *, order: int = 1, price: Any = 1500, **changes: Any) -> CallToCover:
    """A refund as a worker has judged it."""
    fields: dict[str, Any] = {
        "action": Action("process_refund", "1", {"order_id": order}),
        "facts": Facts({"price": price}),
        "rule": terms or granting_rule(),
        "requester": ADA,
        "agent": "refunds",
        "agent_version": "1",
    }
    return CallToCover(**(fields | changes))


def cover(
    grant_id: UUID, call: CallToCover | None = None, standings: Iterable[Standing] | None = None
) -> Cover:
    """A grant that covers this call; by default, its givers are reviewers in good standing."""
    known = [reviewer(GRACE)] if standings is None else standings
    return Cover(grant_id, call or to_cover(), {each.person: each for each in known})


async def use(
    db: Database,
    covering: Cover,
    call: tuple[UUID, UUID] | None = None,
    *,
    idempotent: bool = False,
    worker: str = "w",
) -> Claim | None:
    """Claim a call (run and call) under the grant; by default, a call of a new run."""
    if call is None:
        run_id, (call_id,) = await start(db)
        call = run_id, call_id
    member = CallToClaim(call[1], call[0], None, ClaimTerms(worker, idempotent))
    return await grants.claim(db, member, covering)


async def race(db: Database, waiting: list[tuple[UUID, UUID]], **terms: Any) -> int:
    """How many of twenty workers begin a call (run and call) under one grant at once. ``waiting`` is filled up to
    twenty calls, and keeps those that did not begin.
    """
    grant_id = await allow(db, **terms)
    while len(waiting) < 20:
        run_id, (call_id,) = await start(db)
        waiting.append((run_id, call_id))
    claims = await asyncio.gather(*(use(db, cover(grant_id), each) for each in waiting))
    begun = {each.call_id for each in claims if each is not None}
    waiting[:] = [each for each in waiting if each[1] not in begun]
    [(uses, kept, used_sum, added)] = await rows(
        db,
        "SELECT g.uses, (SELECT count(*) FROM grant_use WHERE grant_id = g.request_id), g.used_sum,"
        " (SELECT sum(amount) FROM grant_use WHERE grant_id = g.request_id)"
        " FROM approval_grant AS g WHERE g.request_id = :id",
        id=grant_id,
    )
    assert (uses, kept, used_sum) == (len(begun), len(begun), added)
    await grants.revoke_as_operator(db, grant_id, "cli:test")  # the number of live grants is limited
    return len(begun)
