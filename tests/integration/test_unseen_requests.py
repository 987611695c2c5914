"""Requests that expire while Slack is away: people learn of them when it is back, once."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from agent.usecases import deliveries, requests, undelivered
from slackbot.cards import ACTION_ASK_AGAIN, ACTION_LIST, ACTION_OPEN
from slackbot.slack_api import messenger
from tests.integration.asking import ADA, Asked, ask, reviewer
from tests.integration.service.conftest import DELETIONS, House, http_house  # noqa: F401
from tests.integration.test_delivery import A_MINUTE_PASSES, CHANNEL, POST, UPDATE, Office, office, talk  # noqa: F401
from tests.integration.web.visiting import data_agent

EXPIRED = "could be posted"


async def _away(office: Office, *asked: Asked) -> None:  # noqa: F811
    """Slack answers nothing while these requests wait, and until they have expired."""
    fault = office.slack.faults.http_500(POST, times=None)
    for _ in asked:
        await office.tell()
        await office.hurry()
    await _expire(office)
    await office.tell()
    office.slack.faults.active.remove(fault)
    await office.hurry()


async def _expire(office: Office) -> None:  # noqa: F811
    await office.execute(
        "UPDATE approval_request SET expires_at = created_at + interval '1 microsecond' WHERE status = 'waiting'"
    )
    await requests.expire_due(office.db)


def _told(office: Office, channel: str = CHANNEL) -> list[str]:  # noqa: F811
    """The messages about unseen requests."""
    return [str(m["blocks"]) for m in office.slack.messages(channel) if EXPIRED in m["text"]]


@pytest.mark.parametrize("many", [1, 3, 40])
async def test_requests_that_expired_unseen_are_told_in_one_message(office: Office, many: int) -> None:  # noqa: F811
    """With their number, the list and the page, however many; no card follows, and nothing stays undelivered."""
    office.drains[0] = office.drain(inbox="https://signoff.example/inbox")
    asked = [await ask(office.db) for _ in range(many)]
    await _away(office, *asked[:3])
    for _ in range(2):
        await office.tell_all()
        office.drains[0] = office.drain()
    [message] = _told(office)
    count = f"{many} requests expired before their cards" if many > 1 else "1 request expired before its card"
    assert count in message
    assert message.count(ACTION_OPEN) == min(many, 5)
    assert ACTION_LIST in message
    assert "https://signoff.example/inbox/history?status=expired" in message
    assert len(office.slack.messages(CHANNEL)) == 1
    assert await office.pending() == 0


async def test_many_senders_share_the_message(office: Office) -> None:  # noqa: F811
    """Requests of several agents that expired unseen are one message; what still waits gets its card."""
    gone = [await ask(office.db, agent=f"agent-{n}") for n in range(5)]
    await _away(office, *gone)
    await ask(office.db)
    await office.tell_all()
    [message] = _told(office)
    assert "5 requests expired" in message
    assert len(office.cards()) == 1


@pytest.mark.parametrize("fault", ["reset_after_accept", "http_500", "reset_before_accept"])
async def test_a_lost_answer_makes_no_second_message(office: Office, fault: str) -> None:  # noqa: F811
    """The message that tells is found, and then tells of those that expired since, too."""
    await _away(office, await ask(office.db), await ask(office.db))
    getattr(office.slack.faults, fault)(POST, times=2)
    office.slack.faults.http_500(UPDATE)
    await office.tell()
    office.slack.faults.clear()
    assert await office.pending() == 4
    await ask(office.db)
    await _expire(office)
    await office.hurry()
    await office.tell_all()
    [message] = _told(office)
    assert "3 requests expired" in message
    assert office.cards() == []


async def test_a_card_that_slack_took_after_all_is_no_unseen_one(office: Office) -> None:  # noqa: F811
    """Its post was not answered, but people saw it: it shows that it expired, and only the others are counted."""
    seen = await ask(office.db)
    office.slack.faults.reset_after_accept(POST)
    await office.tell()
    unread = office.slack.faults.http_500("conversations.history", times=None)
    await office.hurry()
    await _away(office, await ask(office.db), await ask(office.db))
    office.slack.faults.active.remove(unread)
    await office.tell_all()
    [card] = office.cards()
    assert card["metadata"]["event_payload"]["request"] == str(seen.request_id)
    assert "Expired" in str(card["blocks"])
    [message] = _told(office)
    assert "2 requests expired" in message


@pytest.mark.parametrize("found", [True, False])
async def test_a_busy_channel_is_told_all_the_same(
    office: Office,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    found: bool,
) -> None:
    """Where more was posted than is searched, people are told without another search; a card that was found counts."""
    monkeypatch.setattr(messenger, "PAGES", 1)
    if found:
        talk(office, monkeypatch, age=60)
    office.slack.faults.reset_after_accept(POST)
    await ask(office.db)
    await office.tell()
    unread = office.slack.faults.http_500("conversations.history", times=None)
    await office.hurry()
    await _away(office, await ask(office.db), await ask(office.db))
    office.slack.faults.active.remove(unread)
    if not found:
        talk(office, monkeypatch, age=0)
    searches = len(office.slack.calls_of("conversations.history"))
    await office.tell_all()
    [message] = _told(office)
    assert f"{2 if found else 3} requests expired" in message
    assert ("Expired" in str(office.cards()[0]["blocks"])) is found
    assert await office.pending() == 0
    assert len(office.slack.calls_of("conversations.history")) <= searches + 3


async def test_what_was_given_up_long_ago_lengthens_no_search(
    office: Office,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only what was posted since the oldest message that is still tried is searched for a card in doubt."""
    monkeypatch.setattr(messenger, "PAGES", 1)
    office.slack.faults.reset_after_accept(POST)
    await ask(office.db)
    await office.tell()
    await _expire(office)
    await office.execute(
        "UPDATE delivery SET state = 'dead', created_at = created_at - interval '2 days', sent_at = NULL"
    )
    office.slack.workspace.delete(office.slack.workspace.channels[CHANNEL], office.cards()[0]["ts"])
    talk(office, monkeypatch, age=86400)
    office.slack.faults.reset_after_accept(POST)
    seen = await ask(office.db)
    await office.tell()
    await _expire(office)
    await office.hurry()
    await office.tell_all()
    [card] = office.cards()
    assert card["metadata"]["event_payload"]["request"] == str(seen.request_id)
    assert "Expired" in str(card["blocks"])
    assert _told(office) == []


async def test_requests_that_were_seen_are_not_told_again(office: Office) -> None:  # noqa: F811
    """On its card, on a card that was deleted since, or counted in a digest."""
    office.drains[0] = office.drain(cards_per_minute=2)
    for _ in range(4):
        await ask(office.db)
    await office.tell_all()
    assert len(office.cards()) == 2
    channel = office.slack.workspace.channels[CHANNEL]
    office.slack.workspace.delete(channel, office.cards()[0]["ts"])
    [request_id] = await office.column("SELECT min(request_id::text) FROM card_place WHERE ts IS NOT NULL")
    await requests.redraw_card(office.db, request_id)
    await _away(office)
    await office.tell_all()
    assert _told(office) == []
    assert await office.pending() == 0


@pytest.mark.parametrize("accepted", [True, False])
async def test_a_card_after_its_digest_that_slack_took_shows_that_it_expired(
    office: Office,  # noqa: F811
    accepted: bool,
) -> None:
    """The drain dies after Slack has the card, and its request expires: no button of it stays. Without a card, nothing
    follows: the digest told of it.
    """
    office.drains[0] = office.drain(cards_per_minute=2)
    for _ in range(3):
        await ask(office.db)
    await office.tell_all()
    shown = len(office.cards())
    await office.execute(A_MINUTE_PASSES)
    assert await deliveries.unfold(office.db, cards_per_minute=2) == 3 - shown
    fault = office.slack.faults.reset_after_accept if accepted else office.slack.faults.reset_before_accept
    fault(POST)
    await office.tell()
    assert len(office.cards()) == shown + accepted
    await office.execute(
        "UPDATE approval_request SET expires_at = created_at + interval '1 microsecond'"
        " WHERE id IN (SELECT request_id FROM card_place WHERE ts IS NULL)"
    )
    await requests.expire_due(office.db)
    await office.hurry()
    await office.tell_all()
    expired = [card for card in office.cards() if "Expired" in str(card["blocks"])]
    assert (len(office.cards()), len(expired)) == (shown + accepted, accepted)
    assert _told(office) == []
    assert await office.pending() == 0


async def test_what_expired_unseen_takes_no_card_from_what_waits(office: Office) -> None:  # noqa: F811
    """After the outage a flood waits, too: it gets its ten cards of the minute and a digest, beside the message."""
    for _ in range(12):
        await ask(office.db)
    await _expire(office)
    for _ in range(12):
        await ask(office.db)
    await office.tell_all()
    assert len(office.cards()) == 10
    [message] = _told(office)
    assert "12 requests expired" in message
    assert len(office.slack.messages(CHANNEL)) == 12


async def test_a_flood_of_which_nobody_was_told_is_counted(office: Office) -> None:  # noqa: F811
    """Requests folded while Slack was away, and whose digest never appeared, are counted; no empty digest follows."""
    office.drains[0] = office.drain(cards_per_minute=2)
    fault = office.slack.faults.http_500(POST, times=None)
    for _ in range(6):
        await ask(office.db)
    await office.tell()
    assert await office.column("SELECT count(*) FROM card_place WHERE folded") == [4]
    await _expire(office)
    office.slack.faults.active.remove(fault)
    await office.hurry()
    await office.tell_all()
    [message] = _told(office)
    assert "6 requests expired" in message
    assert len(office.slack.messages(CHANNEL)) == 1


@pytest.mark.parametrize("early", [True, False])
async def test_operators_are_told_where_the_channel_cannot_be_reached(office: Office, early: bool) -> None:  # noqa: F811
    """Once, with the channel and the reason, which the log has, too; the channel is not told when it is back."""
    office.open_admin_channel()
    channel = office.slack.workspace.channels[CHANNEL]
    channel.is_archived = True
    for _ in range(3):
        await ask(office.db)
    if early:
        await office.tell()
        await office.hurry()
    await _expire(office)
    with capture_logs() as logs:
        for _ in range(3):
            await office.tell()
            await office.hurry()
    [line] = [each for each in logs if each.get("action") in ("delivery.unreached", "delivery.gone")]
    assert (line["action"], "archived" in line["error"]) == ("delivery.unreached", True)
    await office.operator_messages()
    [message] = _told(office, "C0ADMIN")
    assert "3 requests expired" in message
    assert CHANNEL in message
    assert "archived" in message
    channel.is_archived = False
    office.directory.forget(CHANNEL)
    await office.tell_all()
    assert office.slack.messages(CHANNEL) == []
    assert await office.pending() == 0
    assert await undelivered.list_dead(office.db, 10) == []


async def test_what_nobody_can_be_told_elsewhere_waits_for_the_channel(office: Office) -> None:  # noqa: F811
    """Without an admin channel, the channel is told once it is back."""
    channel = office.slack.workspace.channels[CHANNEL]
    channel.is_archived = True
    await ask(office.db)
    await _expire(office)
    await office.tell()
    channel.is_archived = False
    office.directory.forget(CHANNEL)
    await office.tell_all()
    assert len(_told(office)) == 1


async def test_asking_again_brings_the_new_card_alone(office: Office) -> None:  # noqa: F811
    """The expired request of which people were told gets no card of its own afterwards."""
    asked = await ask(office.db)
    await _away(office, asked)
    await office.tell_all()
    await requests.ask_again(office.db, asked.request_id, reviewer(ADA))
    await office.tell_all()
    assert len(office.slack.messages(CHANNEL)) == 1
    assert await office.pending() == 0


async def test_a_message_that_slack_refuses_is_told_plainly(office: Office) -> None:  # noqa: F811
    """Its blocks are refused: its words are posted, once, and not one request's plain card."""
    await _away(office, await ask(office.db), await ask(office.db))
    office.slack.faults.error(POST, "invalid_blocks")
    await office.tell_all()
    [message] = [m for m in office.slack.messages(CHANNEL) if EXPIRED in m["text"]]
    assert "2 requests expired" in message["text"]
    assert office.cards() == []


async def test_slack_was_away_longer_than_a_request(http_house: House) -> None:  # noqa: F811
    """In a running service: the channel is told when Slack is back, and the requester asks again from there."""
    house = http_house
    await house.open([data_agent()], DELETIONS, SIGNOFF_PUBLIC_URL="https://signoff.example")
    outage = house.slack.faults.http_500(POST, times=None)
    await house.ask("U0ADA", "please delete_records table_name=users count=50")
    await house.shows("SELECT status::text FROM approval_request", "waiting")
    await house.make_overdue()
    await house.shows("SELECT status::text FROM approval_request", "expired")
    house.slack.faults.active.remove(outage)
    await house.says(EXPIRED, channel=CHANNEL)
    [message] = house.slack.messages(CHANNEL)
    assert "https://signoff.example/inbox/history?status=expired" in str(message["blocks"])
    ada = house.slack.person("U0ADA")
    assert (await ada.click(message, ACTION_LIST)).acked
    await house.slack.wait_for(lambda: "Delete 50 records" in str(house.slack.views("U0ADA")[-1]["blocks"]))
    await ada.close(house.slack.views("U0ADA")[-1])
    assert (await ada.click(message, ACTION_OPEN)).acked
    await house.slack.wait_for(lambda: ACTION_ASK_AGAIN in str(house.slack.views("U0ADA")[-1]["blocks"]))
    assert (await ada.click(house.slack.views("U0ADA")[-1], ACTION_ASK_AGAIN)).acked
    card = await house.card()
    assert "signoff:approve" in str(card["blocks"])
    assert len(house.slack.messages(CHANNEL)) == 2
