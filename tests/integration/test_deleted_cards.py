"""Waiting cards that were deleted while Slack's event about it was lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from signoff_demo.sandbox.methods import METHODS
from slackbot.cards import ACTION_APPROVE
from slackbot.delivery.deleted_cards import LOOKS, find_deleted_cards
from slackbot.slack_api.client import SlackClient
from tests.integration import alone
from tests.integration.asking import TEAM, ask
from tests.integration.listeners.conftest import BOT
from tests.integration.service.conftest import DELETIONS, House, http_house  # noqa: F401
from tests.integration.test_delivery import CHANNEL, UPDATE, Office, office  # noqa: F401
from tests.integration.test_settling import IN_DOUBT
from tests.integration.web.visiting import data_agent

HISTORY = "conversations.history"
AN_HOUR_PASSES = "UPDATE card_place SET look_at = look_at - interval '1 hour'"


async def _look(office: Office) -> int:  # noqa: F811
    client = SlackClient(office.slack.bot_token, office.slack.api_url)
    return await find_deleted_cards(office.db, client, TEAM, BOT)


def _lose(office: Office, ts: str) -> None:  # noqa: F811
    """The message is gone, and no event says so."""
    office.slack.workspace.messages.delete(CHANNEL, ts)


@pytest.mark.parametrize("replies", [0, 1])
async def test_a_deleted_waiting_card_comes_back_without_its_event(http_house: House, replies: int) -> None:  # noqa: F811
    """In a running service, within an hour, also where a thread leaves a tombstone; the new card can be decided."""
    house = http_house
    await house.open([data_agent()], DELETIONS)
    await house.ask("U0ADA", "please delete_records table_name=users count=50")
    card = await house.card()
    for _ in range(replies):
        house.slack.person("U0GRACE").say(CHANNEL, "Why?", card["ts"])
    house.slack.workspace.messages.delete(CHANNEL, card["ts"])
    async with house.db.transaction() as tx:
        await tx.execute(text(AN_HOUR_PASSES))
    await house.open([], DELETIONS)  # its scheduler looks at once
    await house.shows(f"SELECT ts <> '{card['ts']}' FROM card_place", True)
    again = await house.card()
    assert (await house.slack.person("U0GRACE").click(again, ACTION_APPROVE)).acked
    assert await house.column("SELECT status::text FROM approval_request") == ["approved"]


async def test_a_card_is_looked_at_after_an_hour(office: Office) -> None:  # noqa: F811
    """An hour after it was posted, changed or looked at, so that a lost one is back within about an hour."""
    asked = await ask(office.db)
    minutes = "SELECT round(extract(epoch FROM look_at - clock_timestamp()) / 60)::int FROM card_place"
    await office.tell_all()
    assert await office.column(minutes) == [60]
    await office.execute(AN_HOUR_PASSES)
    await office.touch(asked)
    await office.tell_all()
    assert await office.column(minutes) == [60]
    await office.execute(AN_HOUR_PASSES)
    assert await _look(office) == 0
    assert await office.column(minutes) == [60]


async def test_a_card_is_looked_at_once_an_hour_a_few_at_a_time(office: Office) -> None:  # noqa: F811
    """Young cards and cards that were just changed not at all; those that stand stay as they are."""
    asked = [await ask(office.db, agent=f"agent-{n}") for n in range(LOOKS + 2)]
    await office.tell_all()
    assert await _look(office) == 0
    assert office.slack.calls_of(HISTORY) == []
    await office.execute(AN_HOUR_PASSES)
    await office.touch(asked[0])
    await office.tell_all()
    changes = len(office.slack.calls_of(UPDATE))
    for looks in (LOOKS, LOOKS + 1, LOOKS + 1):
        assert await _look(office) == 0
        assert len(office.slack.calls_of(HISTORY)) == looks
    await office.tell_all()
    assert len(office.slack.calls_of(UPDATE)) == changes
    assert len(office.cards()) == len(asked)


async def test_only_what_people_need_is_looked_at(office: Office) -> None:  # noqa: F811
    """A decided card stays deleted; one whose call is in doubt comes back."""
    decided, doubted = await ask(office.db), await ask(office.db)
    await office.tell_all()
    first, second = (card["ts"] for card in office.cards())
    await office.approve(decided)
    await office.approve(doubted)
    claim = await alone.claim(office.db, doubted.call_id, worker="w", idempotent=False)
    assert claim is not None
    await alone.report(office.db, claim, IN_DOUBT)
    await office.tell_all()
    for ts in (first, second):
        _lose(office, ts)
    await office.execute(AN_HOUR_PASSES)
    assert await _look(office) == 1
    await office.tell_all()
    [card] = [each for each in office.slack.messages(CHANNEL) if "metadata" in each]
    assert card["metadata"]["event_payload"]["request"] == str(doubted.request_id)
    assert await office.column("SELECT count(*) FROM card_place WHERE look_at IS NOT NULL") == [1]


@pytest.mark.parametrize(
    ("trouble", "soon"),
    [
        ("ratelimited", True),
        ("http_500", True),
        ("missing_scope", False),
        ("not_in_channel", False),
        ("channel_not_found", False),
        ("an_unknown_error", False),
    ],
)
async def test_an_error_is_no_deletion(office: Office, trouble: str, soon: bool) -> None:  # noqa: F811
    """Nothing is posted again; a pause that Slack asks for ends the round, and the card is looked at after it."""
    for _ in range(2):
        await ask(office.db)
    await office.tell_all()
    _lose(office, office.cards()[0]["ts"])
    await office.execute(AN_HOUR_PASSES)
    faults: Any = office.slack.faults
    (getattr(faults, trouble)(HISTORY) if soon else faults.error(HISTORY, trouble, times=2))
    assert await _look(office) == 0
    assert len(office.slack.calls_of(HISTORY)) == (1 if soon else 2)
    assert await office.pending() == 0
    await office.execute(AN_HOUR_PASSES)
    assert await _look(office) == 1
    await office.tell_all()
    assert len(office.cards()) == 2


async def test_a_card_that_cannot_be_changed_but_stands_is_not_posted_again(office: Office) -> None:  # noqa: F811
    """Where Slack lets no old message be changed, looking changes none: no card is posted twice each hour."""
    await ask(office.db)
    await office.tell_all()
    office.slack.faults.error(UPDATE, "edit_window_closed", times=None)
    await office.execute(AN_HOUR_PASSES)
    assert await _look(office) == 0
    await office.tell_all()
    assert len(office.cards()) == 1


async def test_what_the_workspace_s_plan_hides_is_not_deleted(
    office: Office,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Slack says that it shows not all messages (`is_limited`): the card is not posted again."""
    await ask(office.db)
    await office.tell_all()
    await office.execute(AN_HOUR_PASSES)
    _lose(office, office.cards()[0]["ts"])
    method = METHODS[HISTORY]
    hiding = replace(method, handler=lambda *asked: {**method.handler(*asked), "is_limited": True})
    monkeypatch.setitem(METHODS, HISTORY, hiding)
    assert await _look(office) == 0
