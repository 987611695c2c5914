"""Whose approval of a request does not count: stored when it opens, and added to by edits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal
from uuid import UUID

import pytest

from agent.database.pools import Database
from agent.domain.api_keys import Scope
from agent.domain.errors import Refusal, Refused
from agent.domain.request import ExecutionStatus
from agent.domain.run import NewRun, ProposedCall, Turn
from agent.store import views
from agent.usecases import api_keys, requests, runs
from agent.usecases.calls import Outcome
from agent.usecases.requests import Edit
from signoff.values import Action, Person
from tests.integration import alone
from tests.integration.asking import (
    ADA,
    GRACE,
    LINUS,
    TEAM,
    Asked,
    asked_as,
    ballot,
    column,
    programs_question,
    question,
    reviewer,
    rule,
    write,
)

EVE, MAX, ZOE = (Person(TEAM, user) for user in ("U0EVE", "U0MAX", "U0ZOE"))


async def begin(db: Database, **changes: Any) -> UUID:
    new = NewRun("refunds", "1", "refund order 7", "slack", ADA, "slack", TEAM, "C0AGENTS")
    return (await runs.start(db, replace(new, **changes))).run_id


async def propose(db: Database, run_id: UUID) -> UUID:
    """The call that the run's next turn proposes."""
    leased = await alone.lease(db, run_id, "worker-1")
    assert leased is not None
    call = ProposedCall("call_0", "process_refund", '{"order_id": 9}')
    await alone.record_turn(db, leased.lease, Turn("Asked for.", (call,), 10, leased.heard))
    async with db.connection() as connection:
        return (await views.calls(connection, run_id))[-1].id


async def ask_about(db: Database, run_id: UUID, order: int = 0, **terms: Any) -> Asked:
    """A waiting request about what the run proposes next."""
    call_id = await propose(db, run_id)
    opened = await requests.open(db, question(run_id, call_id, rule(allow_edit=True, **terms), order=order))
    return await asked_as(db, opened.request_id, call_id, run_id)


async def reject(db: Database, asked: Asked, person: Person, reason: str) -> None:
    await alone.vote(db, ballot(asked, reviewer(person), "reject", reason=reason))
    assert await runs.answer_call(db, asked.call_id) is None


async def edit(db: Database, asked: Asked, person: Person, order: int, revision: int = 1) -> None:
    action = Action("process_refund", "1", {"order_id": order})
    await requests.edit(
        db,
        Edit(asked.request_id, revision, reviewer(person), action, {"price": 9}, None, "slack_modal"),
    )


async def refusals(db: Database, asked: Asked, revision: int = 1) -> dict[str, Refusal]:
    """The refusal of each excluded person, a reviewer otherwise, who approves."""
    found = {}
    for user, _ in await excluded(db, asked):
        with pytest.raises(Refused) as caught:
            await alone.vote(db, ballot(asked, reviewer(Person(TEAM, user)), revision=revision, place=None))
        found[user] = caught.value.code
    assert await column(db, "SELECT count(*) FROM vote WHERE request_id = :id", id=asked.request_id) == [0]
    return found


async def excluded(db: Database, asked: Asked) -> set[tuple[str, str]]:
    (stored,) = await column(db, "SELECT excluded FROM approval_request WHERE id = :id", id=asked.request_id)
    return {(each["user"], each["why"]) for each in stored}


async def expire_and_ask_again(db: Database, asked: Asked) -> UUID:
    """The call that asks the same once more, after nobody decided in time."""
    await write(
        db,
        "UPDATE approval_request SET expires_at = clock_timestamp(), created_at = created_at - interval '1 h' "
        "WHERE id = :id",
        id=asked.request_id,
    )
    await requests.expire_due(db)
    return await requests.ask_again(db, asked.request_id, reviewer(ADA))


async def test_asking_and_instructing_excludes(database: Database) -> None:
    """The requester, the key's owner and everybody who wrote to a run of the family before the proposal."""
    await api_keys.create(database, "agency", [Scope.REQUEST, Scope.ON_BEHALF], by="test", owner=GRACE)
    (key_id,) = await column(database, "SELECT id FROM api_key")
    top = await begin(database, principal="key:agency", api_key_id=key_id)
    await runs.add_message(database, top, "also refund order 9", LINUS, "m-1")
    handed = await propose(database, top)
    await runs.add_message(database, top, "how is it going?", MAX, "m-2")
    below = await begin(
        database, parent_run_id=top, parent_call_id=handed, principal="key:agency", api_key_id=key_id
    )
    await runs.add_message(database, below, "hurry", EVE, "m-3")
    asked = await ask_about(database, below)
    await runs.add_message(database, below, "why this one?", ZOE, "m-4")
    expected = {
        (ADA.user_id, "requester"),
        (GRACE.user_id, "key_owner"),
        (LINUS.user_id, "instructor"),
        (MAX.user_id, "instructor"),
        (EVE.user_id, "instructor"),
    }
    assert await excluded(database, asked) == expected
    assert await refusals(database, asked) == {
        ADA.user_id: Refusal.SELF_REVIEW,
        GRACE.user_id: Refusal.SELF_REVIEW,
        LINUS.user_id: Refusal.INSTRUCTED,
        MAX.user_id: Refusal.INSTRUCTED,
        EVE.user_id: Refusal.INSTRUCTED,
    }


async def test_own_words_exclude_from_what_is_proposed_later(database: Database) -> None:
    """Own words that the agent has read count for what it proposes next: a reason, and the note of an approval or of
    Mark as done. A choice of the checkpoint's and a Retry do not.
    """
    run_id = await begin(database)
    reasons = {"reject_reasons": ("Wrong amount",)}
    first = await ask_about(database, run_id, 1, **reasons)
    await reject(database, first, GRACE, "refund half of it")
    assert await excluded(database, first) == {(ADA.user_id, "requester")}
    await reject(database, await ask_about(database, run_id, 2, **reasons), LINUS, "Wrong amount")
    await reject(database, await ask_about(database, run_id, 3, **reasons), ZOE, "  ")
    doubtful = await ask_about(database, run_id, 4)
    await alone.vote(database, ballot(doubtful, reviewer(LINUS), reason="fine by me"))
    words: list[tuple[Person, Literal["retry", "done"]]] = [(MAX, "retry"), (EVE, "done")]
    for settler, word in words:
        claim = await alone.claim(database, doubtful.call_id, worker="w", idempotent=False)
        assert claim is not None
        await alone.report(database, claim, Outcome(ExecutionStatus.IN_DOUBT, "the line went dead"))
        await requests.settle(database, claim.execution_id, reviewer(settler), word, "refund order 8, too")
    last = await ask_about(database, run_id, 5)
    advisers = {(each.user_id, "adviser") for each in (GRACE, LINUS, EVE)}
    assert await excluded(database, last) == {(ADA.user_id, "requester")} | advisers
    advised = dict.fromkeys((GRACE.user_id, LINUS.user_id, EVE.user_id), Refusal.ADVISED)
    assert await refusals(database, last) == {ADA.user_id: Refusal.SELF_REVIEW} | advised


async def test_an_edit_excludes_from_what_is_proposed_later(database: Database) -> None:
    """The agent reads what an editor changed, so the editor may not approve what the agent proposes next."""
    run_id = await begin(database)
    edited = await ask_about(database, run_id, 1)
    await edit(database, edited, EVE, 2)
    await alone.vote(database, ballot(edited, reviewer(LINUS), revision=2))
    claim = await alone.claim(database, edited.call_id, worker="w", idempotent=False)
    assert claim is not None
    await alone.report(database, claim, Outcome(ExecutionStatus.SUCCEEDED, "refunded"))
    later = await ask_about(database, run_id, 3)
    assert await excluded(database, later) == {(ADA.user_id, "requester"), (EVE.user_id, "earlier_editor")}
    assert (await refusals(database, later))[EVE.user_id] is Refusal.EDITED_EARLIER


async def test_words_to_a_child_run_count_for_its_siblings(database: Database) -> None:
    """A parent passes on what it hears, so own words anywhere in the family count from their commit on."""
    top = await begin(database)
    handed = await propose(database, top)
    first, second = [await begin(database, parent_run_id=top, parent_call_id=handed) for _ in range(2)]
    await reject(database, await ask_about(database, first), GRACE, "pay the other account instead")
    noted = await ask_about(database, first, 1)
    await alone.vote(database, ballot(noted, reviewer(LINUS), reason="and next time in euros"))
    asked = await ask_about(database, second, 2)
    assert {(GRACE.user_id, "adviser"), (LINUS.user_id, "adviser")} <= await excluded(database, asked)


async def test_own_words_count_below(database: Database) -> None:
    """Advice to a run excludes its author from what a run below proposes that was started after it."""
    top = await begin(database)
    await reject(database, await ask_about(database, top), GRACE, "let payments do it")
    handed = await propose(database, top)
    below = await begin(database, parent_run_id=top, parent_call_id=handed)
    asked = await ask_about(database, below)
    assert (GRACE.user_id, "adviser") in await excluded(database, asked)


async def test_advice_after_the_proposal_does_not_count(database: Database) -> None:
    """Of two calls of one turn, the reason given for one says nothing about the other, asked again or not."""
    run_id = await begin(database)
    leased = await alone.lease(database, run_id, "worker-1")
    assert leased is not None
    proposed = tuple(ProposedCall(f"call_{n}", "process_refund", "{}") for n in range(2))
    await alone.record_turn(database, leased.lease, Turn("Two.", proposed, 10, leased.heard))
    async with database.connection() as connection:
        first, second = [call.id for call in await views.calls(connection, run_id)]
    opened = await requests.open(database, question(run_id, first, rule()))
    await reject(database, await asked_as(database, opened.request_id, first, run_id), GRACE, "no")
    opened = await requests.open(database, question(run_id, second, rule(), order=1))
    asked = await asked_as(database, opened.request_id, second, run_id)
    assert await excluded(database, asked) == {(ADA.user_id, "requester")}
    again = await expire_and_ask_again(database, asked)
    opened = await requests.open(database, question(run_id, again, rule(), order=1))
    repeated = await asked_as(database, opened.request_id, again, run_id)
    assert await excluded(database, repeated) == {(ADA.user_id, "requester")}


async def test_every_editor_stays_excluded(database: Database) -> None:
    """Both editors of a request are excluded from it, and from what asks for the same call again."""
    run_id = await begin(database)
    asked = await ask_about(database, run_id)
    await edit(database, asked, GRACE, 1)
    await edit(database, asked, EVE, 2, revision=2)
    expected = {(ADA.user_id, "requester"), (GRACE.user_id, "editor"), (EVE.user_id, "editor")}
    assert await excluded(database, asked) == expected
    assert await refusals(database, asked, revision=3) == {
        ADA.user_id: Refusal.SELF_REVIEW,
        GRACE.user_id: Refusal.EDITOR_ALONE,
        EVE.user_id: Refusal.EDITOR_ALONE,
    }
    await alone.vote(database, ballot(asked, reviewer(LINUS), revision=3))
    new = replace(question(run_id, asked.call_id, rule()), client_id="again")
    opened = await requests.void_and_ask(database, asked.call_id, asked.request_id, new)
    again = replace(asked, request_id=opened.request_id)
    assert await excluded(database, again) == expected
    repeats = await expire_and_ask_again(database, again)
    opened = await requests.open(database, question(run_id, repeats, rule()))
    repeated = replace(asked, request_id=opened.request_id)
    assert await excluded(database, repeated) == expected


async def test_every_editor_stays_excluded_when_a_program_is_asked_again(database: Database) -> None:
    """Changed facts void the approval of an action that two people edited; neither may approve it alone afterwards."""
    await api_keys.create(database, "agency", [Scope.REQUEST], by="test", owner=MAX)
    (key_id,) = await column(database, "SELECT id FROM api_key")
    terms = rule(allow_edit=True)
    new = programs_question(terms, principal="key:agency", api_key_id=key_id)
    call_id = (await requests.open(database, new)).request_id
    asked = await asked_as(database, call_id, call_id, call_id)
    await edit(database, asked, GRACE, 1)
    await edit(database, asked, EVE, 2, revision=2)
    await alone.vote(database, ballot(asked, reviewer(LINUS), revision=3))
    anew = replace(new, call_id=call_id, facts={"price": 10})
    again = await requests.void_and_ask(database, call_id, call_id, anew)
    assert await excluded(database, replace(asked, request_id=again.request_id)) == {
        (ADA.user_id, "requester"),
        (MAX.user_id, "key_owner"),
        (GRACE.user_id, "editor"),
        (EVE.user_id, "editor"),
    }


async def test_policy_lifts_exclusions(database: Database) -> None:
    """What the checkpoint allows excludes nobody."""
    asked = await ask_about(
        database, await begin(database), prevent_self_review=False, editor_may_approve=True
    )
    await edit(database, asked, GRACE, 1)
    assert await excluded(database, asked) == set()


async def test_exclusions_stay(database: Database) -> None:
    """No statement takes an exclusion back, nor replaces it by another reason."""
    asked = await ask_about(database, await begin(database))
    for value in ("[]", '[{"team": "T0SIGNOFF", "user": "U0ADA", "why": "editor"}]'):
        with pytest.raises(Exception, match="stays excluded"):
            await write(database, "UPDATE approval_request SET excluded = CAST(:value AS jsonb)", value=value)
    assert await excluded(database, asked) == {(ADA.user_id, "requester")}
