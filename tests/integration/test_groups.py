"""Requests of one turn and checkpoint share a message: who is in it, what it shows, and who leaves it."""

from __future__ import annotations

from typing import Any

import pytest

from agent.domain.groups import Batch, gathered_in
from agent.store import groups, outbox
from agent.usecases import deliveries, requests
from agent.usecases.requests import Edit
from signoff.values import Action
from tests.integration import alone
from tests.integration.asking import (
    GRACE,
    LINUS,
    REVIEWS,
    Asked,
    asked_as,
    ballot,
    question,
    reviewer,
    rule,
    start,
)
from tests.integration.test_delivery import CHANNEL, POST, UPDATE, Office, office

__all__ = ["office"]


async def turn(
    office: Office, count: int, terms: Any = None, *, group_from: int = 4, first: int = 1, name: str = "b"
) -> list[Asked]:
    """Calls of one batch, as a worker asks about them."""
    asked = []
    made = terms or rule()
    for order in range(first, first + count):
        run_id, calls = await start(office.db)
        new = question(
            run_id,
            calls[0],
            made,
            order=order,
            description=f"Refund order {order}",
            facts={"price": 100 + order},
            gathered_in=gathered_in(Batch(name, count), made, None, group_from),
        )
        opened = await requests.open(office.db, new)
        asked.append(await asked_as(office.db, opened.request_id, calls[0], run_id))
    return asked


def messages(office: Office) -> list[str]:
    """What stands in the channel, without threads."""
    return [str(each["blocks"]) for each in office.slack.messages(CHANNEL)]


async def posted(office: Office) -> list[str]:
    await office.hurry()
    await office.tell_all()
    return messages(office)


async def test_six_of_a_turn_share_one_message(office: Office) -> None:
    """From four on, the waiting calls of a turn are one message: titles, for whom, and two buttons."""
    await turn(office, 6)
    await office.tell()
    assert messages(office) == []  # held back for a moment, so that all of them can come
    (message,) = await posted(office)
    assert "6 requests of agent refunds wait for review" in message
    for order in range(1, 7):
        assert f"Refund order {order}" in message
    assert "signoff:decide_together" in message
    assert len(office.slack.calls_of(POST)) == 1


async def test_a_batch_is_held_for_two_seconds_at_most(office: Office) -> None:
    """What gathers a batch is due within a second of its first request, and a channel is looked at every second."""
    await turn(office, 6)
    (seconds,) = await office.column(
        "SELECT CAST(extract(epoch FROM not_before - created_at) AS float) FROM delivery WHERE kind = 'digest'"
    )
    assert 0 < seconds <= 1


@pytest.mark.parametrize(
    ("count", "group_from", "terms"),
    [(3, 4, {}), (6, 0, {}), (6, 4, {"risk": "high"}), (6, 4, {"approvals_required": 2})],
)
async def test_others_have_cards_of_their_own(
    office: Office, count: int, group_from: int, terms: dict[str, Any]
) -> None:
    """Fewer than four, `group_from = 0`, high risk, or several approvals: each has a card, at once."""
    await turn(office, count, rule(**terms), group_from=group_from)
    await office.tell_all()
    assert len(messages(office)) == count


async def test_a_batch_of_which_few_wait_has_cards(office: Office) -> None:
    """If only three of six still wait when the group is formed, nobody is held back any longer: all have cards."""
    asked = await turn(office, 6)
    for each in asked[:3]:
        await alone.vote(office.db, ballot(each, reviewer(GRACE), place=None))
    assert len(await posted(office)) == 6


async def test_later_calls_get_another_message(office: Office) -> None:
    """A posted message never grows, since a change rings nobody: later ones of the batch share a new one."""
    await turn(office, 5)
    assert len(await posted(office)) == 1
    await turn(office, 4, first=11)
    assert len(await posted(office)) == 2


async def test_a_decided_member_shows_in_the_message(office: Office) -> None:
    """Deciding one redraws the message, and its line stands in the message's thread with its title before it."""
    asked = await turn(office, 5)
    await posted(office)
    await alone.vote(office.db, ballot(asked[1], reviewer(GRACE), "reject", reason="Twice", place=None))
    (message,) = await posted(office)
    assert "4 of 5 requests of agent refunds wait for review" in message
    assert "Rejected" in message
    (root,) = office.slack.messages(CHANNEL)
    (line,) = office.lines(root)
    assert "Refund order 2" in line
    assert "Twice" in line


@pytest.mark.parametrize("how", ["edit", "escalate", "doubt"])
async def test_who_needs_a_card_leaves_the_group(office: Office, how: str) -> None:
    """A request that is edited, escalated or in doubt gets a card with a thread; the message no longer has it."""
    asked = await turn(office, 5, rule(allow_edit=True))
    await posted(office)
    mine = asked[0].request_id
    if how == "edit":
        action = Action("process_refund", "1", {"order_id": 9})
        await requests.edit(
            office.db, Edit(mine, 1, reviewer(LINUS), action, {"price": 9}, None, "slack_edit")
        )
    else:
        await office.execute(f"UPDATE approval_request SET escalated_at = now() WHERE id = '{mine}'")
        async with office.db.transaction() as tx:
            outbox.enqueue(tx, [outbox.card(REVIEWS, mine)])
    digest, card = await posted(office)
    assert "4 requests of agent refunds wait for review" in digest
    assert "signoff:approve" in card
    assert await office.column("SELECT ts FROM card_place WHERE request_id = :id", id=mine) != [None]


async def test_a_group_is_never_unfolded(office: Office) -> None:
    """The sweep that gives a flood its cards leaves groups alone, and a group counts as one card of its sender."""
    await turn(office, 6)
    await posted(office)
    assert await deliveries.unfold(office.db) == 0
    assert len(await posted(office)) == 1


async def test_groups_beyond_the_limit_join_the_flood(office: Office) -> None:
    """Where a sender's cards of this minute are used up, another group's requests are part of its flood's digest."""
    office.drains[0] = office.drain(cards_per_minute=1)
    await turn(office, 5)
    await posted(office)
    await turn(office, 5, first=11, name="c")
    first, flood = await posted(office)
    assert "5 requests of agent refunds wait for review" in first
    assert "They share this message because too many arrived at once" in flood or "signoff:approve" in flood


async def test_a_deleted_message_is_posted_again(office: Office) -> None:
    """If somebody deletes a group's message, it comes again while its requests wait."""
    asked = await turn(office, 5)
    await posted(office)
    (message,) = office.slack.messages(CHANNEL)
    office.slack.workspace.messages.delete(CHANNEL, message["ts"])
    await alone.vote(office.db, ballot(asked[1], reviewer(GRACE), place=None))
    assert "4 of 5 requests" in (await posted(office))[-1]
    assert len(office.slack.calls_of(UPDATE)) >= 1


async def test_a_message_that_is_given_up_frees_its_requests(office: Office) -> None:
    """If Slack refuses a group's message for good, the next sweep gives its requests cards of their own."""
    await turn(office, 5)
    await office.hurry()
    async with office.db.transaction() as tx:
        assert await groups.form(tx, REVIEWS, "batch:b:refunds", group_from=4, cards_per_minute=10)
    (name,) = await office.column("SELECT name FROM request_group")
    await office.execute(
        f"UPDATE delivery SET state = 'dead', agent = '{name}', coalesce_key = NULL WHERE kind = 'digest'"
    )
    await deliveries.unfold(office.db)
    assert len(await posted(office)) == 5


async def flooded(office: Office, batches: int, singles: int) -> None:
    """Batches of five and single requests of one sender, more than a channel takes: each is shown, once, in order."""
    office.drains[0] = office.drain(cards_per_minute=10)
    asked = [
        each
        for number in range(batches)
        for each in await turn(office, 5, first=10 * number, name=f"b{number}")
    ]
    asked += [
        each for number in range(singles) for each in await turn(office, 1, first=number, name=f"s{number}")
    ]
    await posted(office)
    shown = await office.column(
        """SELECT CASE WHEN p.ts IS NOT NULL AND p.digest IS NULL THEN 'card'
                       WHEN g.ts IS NOT NULL AND p.ts IS NULL THEN 'group'
                       WHEN p.folded AND p.digest IS NULL AND EXISTS (SELECT FROM digest_card) THEN 'flood'
                       ELSE 'nowhere' END
           FROM card_place AS p LEFT JOIN request_group AS g ON g.name = p.digest WHERE p.surface = 'channel'"""
    )
    assert len(shown) == len(asked)
    assert "nowhere" not in shown
    assert shown.count("group") % 5 == 0
    assert len(messages(office)) <= 12  # the limit, the digest, and one posted with its last room
    order = await office.column(
        """SELECT g.ts FROM card_place AS p JOIN request_group AS g ON g.name = p.digest
           JOIN approval_request AS r ON r.id = p.request_id GROUP BY g.ts ORDER BY min(r.created_at)"""
    )
    assert order == sorted(order)


async def test_a_flood_of_groups_hides_nothing(office: Office) -> None:
    """Twenty batches and twenty cards at once: a channel's worth is posted, and the digest has the rest."""
    await flooded(office, 20, 20)


async def test_a_group_that_is_decided_before_it_is_posted(office: Office) -> None:
    """If nobody waits any more when a group would be posted, each request has a card with its outcome and its line."""
    asked = await turn(office, 5)
    async with office.db.transaction() as tx:
        name = await groups.form(tx, REVIEWS, "batch:b:refunds", group_from=4, cards_per_minute=10)
        assert name is not None
        outbox.enqueue(tx, [outbox.digest(REVIEWS, name)])
    await office.execute("UPDATE delivery SET state = 'skipped' WHERE agent LIKE 'batch:%'")
    for each in asked:
        await alone.vote(office.db, ballot(each, reviewer(GRACE), place=None))
    assert len(await posted(office)) == 5
    assert await office.column("SELECT count(*) FROM request_group") == [0]
