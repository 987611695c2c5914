"""Messages to Slack that were sent a week ago are deleted, and nobody misses them."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

import pytest

from agent.store import outbox
from agent.store.outbox import Destination
from agent.usecases import forgetting, undelivered
from tests.integration.asking import REVIEWS, TEAM, ask
from tests.integration.test_delivery import CHANNEL, UPDATE, Office, office  # noqa: F401
from tests.integration.test_undelivered import give_a_change_up

AGE = """
UPDATE delivery
SET created_at = created_at - interval '8 days', id = CAST('0100' || substr(CAST(id AS text), 5) AS uuid)
"""
STATES = "SELECT state::text FROM delivery ORDER BY state"


async def a_week_passes(office: Office) -> int:  # noqa: F811
    """All that is written becomes old, its ids included, before the sweep."""
    await office.execute(AGE)
    return await forgetting.messages(office.db)


@pytest.mark.parametrize("at_once", [1, 1_000])
async def test_a_card_goes_on_without_the_row_that_posted_it(
    office: Office,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    at_once: int,
) -> None:
    """Its decision changes the same message, and lines follow in its thread and its run's."""
    monkeypatch.setattr(forgetting, "AT_ONCE", at_once)
    asked = await ask(office.db)
    async with office.db.transaction() as tx:
        outbox.enqueue(tx, [outbox.request_line(REVIEWS, asked.request_id, "reminder")])
    await office.tell_all()
    await office.tell_all("C0AGENTS")
    [card], [root] = office.cards(), office.slack.messages("C0AGENTS")
    sent = await office.column(STATES)
    assert set(sent) == {"sent"}
    assert await forgetting.messages(office.db) == 0
    assert await a_week_passes(office) == len(sent) >= 4
    assert await office.column(STATES) == []

    await office.approve(asked)
    await office.tell_all()
    await office.tell_all("C0AGENTS")
    [changed] = office.cards()
    assert (changed["ts"], "Approved" in str(changed["blocks"])) == (card["ts"], True)
    assert len(office.lines(card)) == 2
    assert [message["ts"] for message in office.slack.messages("C0AGENTS")] == [root["ts"]]


async def test_a_backlog_leaves_half_of_the_time_to_others(
    office: Office,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After each batch it rests for as long as that took, and what the batch deleted is gone for everybody."""
    monkeypatch.setattr(forgetting, "AT_ONCE", 1)
    monkeypatch.setattr(forgetting, "time", SimpleNamespace(monotonic=count(step=3).__next__))
    await ask(office.db)
    await office.execute("UPDATE delivery SET state = 'sent'")
    await office.execute(AGE)
    left: list[tuple[float, int]] = []

    async def rest(seconds: float) -> None:
        left.append((seconds, len(await office.column(STATES))))

    number = len(await office.column(STATES))
    assert await forgetting.messages(office.db, rest=rest) == number >= 2
    assert left == [(3, number - gone) for gone in range(1, number + 1)]


async def test_what_is_pending_or_dead_stays(office: Office) -> None:  # noqa: F811
    """A message that waits is sent, and one that was given up can be retried, however old they are."""
    await office.touch(await give_a_change_up(office))
    await office.execute("DELETE FROM delivery WHERE channel_id <> 'C0REVIEW'")
    assert await a_week_passes(office) == 0
    assert await office.column(STATES) == ["dead", "pending", "sent"]
    await office.execute("UPDATE delivery SET state = 'skipped' WHERE state = 'pending'")
    [dead] = await undelivered.list_dead(office.db, 10)
    assert await undelivered.retry_dead(office.db, dead.id) == 1


async def test_what_was_made_good_does_not_turn_up_as_dead_again(office: Office) -> None:  # noqa: F811
    """The later change that has shown the card as it is stays beside the one that was given up."""
    await office.touch(await give_a_change_up(office))
    await office.tell_all()
    await a_week_passes(office)
    assert await office.column("SELECT 1 FROM delivery WHERE state = 'dead'") == [1]
    assert await undelivered.list_dead(office.db, 10) == []


async def test_nobody_is_told_again(office: Office) -> None:  # noqa: F811
    """Operators of a plain card or missing reviewers, and a run of trouble with its card, read of it once."""
    office.open_admin_channel()
    office.slack.workspace.change_usergroup("S0FINANCE", [])
    asked = await ask(office.db)
    office.slack.faults.error("chat.postMessage", "invalid_blocks")
    await office.tell_all()
    told = await office.operator_messages()
    assert len(told) == 2
    admin = Destination(TEAM, "C0ADMIN")
    async with office.db.transaction() as tx:
        facts = {"channel": CHANNEL, "text": "is_archived"}
        line = outbox.unreachable_line(Destination(TEAM, "C0AGENTS"), asked.run_id, asked.request_id, **facts)
        outbox.enqueue(tx, [line, outbox.direct(admin, None, None, "trouble", **facts)])
    await office.execute("UPDATE delivery SET state = 'sent'")
    assert await a_week_passes(office) > 1
    keys = await office.column("SELECT split_part(split_part(coalesce_key, ':', 1), ' ', 1) FROM delivery")
    assert sorted(keys) == ["missing_reviewers", "plain_card", "unreachable"]
    office.slack.faults.error(UPDATE, "invalid_blocks")
    await office.touch(asked)
    await office.tell_all()
    office.drains[0].reviewers.changed("S0FINANCE")
    await office.drains[0].reviewers.finish()
    assert await office.operator_messages() == told
