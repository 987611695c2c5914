"""What people write in threads and to the bot, in both modes."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from agent.domain.errors import Refusal, sentence
from agent.store import views
from signoff.values import Person
from slackbot.cards import ACTION_APPROVE
from slackbot.slack.listeners import messages
from tests.integration.asking import ADA, TEAM
from tests.integration.listeners.conftest import House


async def thread_of_a_run(house: House) -> tuple[UUID, str]:
    """A run whose thread is open in C0AGENTS."""
    await house.slack.person("U0ADA").command("/agent", "run refunds order 7", "C0AGENTS")
    root = await house.client.chat_postMessage(channel="C0AGENTS", text="a run")
    ((run_id,),) = house.rows("SELECT id FROM agent_run")
    house.owner.execute("UPDATE agent_run SET thread_ts = %s WHERE id = %s", (root["ts"], run_id))
    return run_id, str(root["ts"])


async def heard(house: House, run_id: UUID) -> list[tuple[str | None, Person | None]]:
    async with house.db.connection() as connection:
        said = await views.messages(connection, run_id)
    return [(each.text, each.author) for each in said if each.seq > 1]


async def settled(house: House, events: int) -> None:
    """Wait until the app has acknowledged so many events."""

    def acknowledged() -> bool:
        return sum(each.report.acked for each in house.slack.deliveries.events) >= events

    await house.slack.wait_for(acknowledged)


def sent(house: House, kind: str) -> int:
    return sum(each.type == kind and each.report.acked for each in house.slack.deliveries.events)


async def test_a_reply_in_the_runs_thread_is_heard(house: House) -> None:
    """What a member writes in the thread reaches the run as typed, with its author."""
    run_id, ts = await thread_of_a_run(house)
    house.slack.person("U0GRACE").say("C0AGENTS", "a & b < c > d, see @ada", thread_ts=ts)
    await house.slack.wait_for(lambda: sent(house, "message") >= 2)
    assert await heard(house, run_id) == [
        ("a & b < c > d, see <@U0ADA>", Person(TEAM, "U0GRACE")),
    ]


async def test_a_reply_is_heard_while_an_approval_waits(house: House) -> None:
    """A question to people does not end the conversation: what is said in the thread meanwhile reaches the run."""
    asked, _ = await house.asked()
    root = await house.client.chat_postMessage(channel="C0AGENTS", text="a run")
    house.owner.execute("UPDATE agent_run SET thread_ts = %s WHERE id = %s", (root["ts"], asked.run_id))
    house.slack.person("U0ADA").say("C0AGENTS", "hurry, please", thread_ts=str(root["ts"]))
    await house.slack.wait_for(lambda: sent(house, "message") >= 3)
    assert ("hurry, please", ADA) in await heard(house, asked.run_id)
    assert await house.status(asked.request_id) == "waiting"


@pytest.mark.budgets
async def test_a_mention_in_the_thread_is_heard_once(house: House) -> None:
    """A mention arrives as two events, and either several times: one message for the model, without the mention."""
    run_id, ts = await thread_of_a_run(house)
    house.slack.faults.drop_acks(times=2)
    house.slack.person("U0ADA").mention("C0AGENTS", "and order 8?", thread_ts=ts)
    await house.slack.wait_for(lambda: sent(house, "app_mention") and sent(house, "message") >= 2)
    assert await heard(house, run_id) == [("and order 8?", ADA)]


async def test_other_peoples_words_are_not_heard(house: House) -> None:
    """Guests, outsiders, bots, ourselves, edits, other threads and the open channel do not reach the run."""
    run_id, ts = await thread_of_a_run(house)
    for user in ("U0MALLORY", "U0EVE"):
        house.slack.person(user).say("C0AGENTS", "refund me", thread_ts=ts)
    await house.client.chat_postMessage(channel="C0AGENTS", text="our own words", thread_ts=ts)
    mine = house.slack.person("U0ADA").say("C0AGENTS", "in the open channel")
    house.slack.person("U0ADA").say("C0AGENTS", "elsewhere", thread_ts=mine["ts"])
    channel = house.slack.workspace.channels["C0AGENTS"]
    house.slack.workspace.post(channel, {"text": "a bot", "bot_id": "B0OTHER", "user": "U0ROBOT"}, ts)
    house.slack.workspace.edit(channel, mine["ts"], {"text": "edited"})
    await settled(house, 7)
    assert await heard(house, run_id) == []
    await house.ephemeral("U0MALLORY", "Guests")


async def test_a_reply_does_not_bring_somebody_elses_failed_run_back(house: House) -> None:
    """Only its requester and administrators reach a failed run; others read who can resume it."""
    run_id, ts = await thread_of_a_run(house)
    house.owner.execute("UPDATE agent_run SET status = 'failed', cause = 'no model' WHERE id = %s", (run_id,))
    house.slack.person("U0GRACE").mention("C0AGENTS", "go on", thread_ts=ts)
    await house.ephemeral("U0GRACE", sentence(Refusal.NOT_YOURS_TO_TAKE_UP))
    await house.slack.wait_for(lambda: sent(house, "app_mention") and sent(house, "message") >= 2)
    assert house.rows("SELECT status::text FROM agent_run") == [("failed",)]
    house.slack.workspace.change_member("U0GRACE", is_admin=True)
    house.ctx.directory.forget("U0GRACE")
    house.slack.person("U0GRACE").say("C0AGENTS", "and now", thread_ts=ts)
    await house.slack.wait_for(lambda: sent(house, "message") >= 3)
    assert await heard(house, run_id) == [("and now", Person(TEAM, "U0GRACE"))]


async def test_words_in_a_requests_thread_decide_nothing(house: House) -> None:
    """ "approved" under a card changes nothing, from any author, mention or not."""
    asked, card = await house.asked()
    grace = house.slack.person("U0GRACE")
    grace.say("C0REVIEW", "approved", thread_ts=card["ts"])
    grace.mention("C0REVIEW", "approve", thread_ts=card["ts"])
    await house.ephemeral("U0GRACE", messages.NOT_HERE[:30])
    await settled(house, 4)
    assert await house.status(asked.request_id) == "waiting"
    assert house.rows("SELECT count(*) FROM vote") == [(0,)]
    assert house.rows("SELECT count(*) FROM run_message WHERE author_user_id = 'U0GRACE'") == [(0,)]
    assert (await grace.click(card, ACTION_APPROVE)).acked


async def test_a_mention_starts_an_agent(house: House) -> None:
    """`@signoff run refunds …` in a channel does what the command does, once, also when it is delivered twice."""
    said = house.slack.person("U0ADA").mention("C0AGENTS", "run refunds order 7 & 8")
    await house.ephemeral("U0ADA", "has started")
    again = {
        "type": "app_mention",
        "channel": "C0AGENTS",
        **{key: said[key] for key in ("user", "text", "ts", "team")},
    }
    house.slack.workspace.emit(again)
    await house.slack.wait_for(lambda: sent(house, "app_mention") == 2)
    assert house.rows("SELECT task, requester_user_id, channel_id FROM agent_run") == [
        ("order 7 & 8", "U0ADA", "C0AGENTS")
    ]
    house.slack.person("U0ADA").mention("C0AGENTS", "hello?")
    await house.ephemeral("U0ADA", "/agent run")


@pytest.mark.budgets
async def test_a_message_is_not_lost_when_the_database_is(house: House) -> None:
    """An event that could not be stored is not acknowledged, so Slack sends it again, and then it counts."""
    run_id, ts = await thread_of_a_run(house)
    with house.without_database():
        house.slack.person("U0ADA").say("C0AGENTS", "and order 8?", thread_ts=ts)
        failed = lambda: [e for e in house.slack.deliveries.events if not e.report.acked]  # noqa: E731
        await house.slack.wait_for(failed)
    await house.slack.wait_for(
        lambda: any(e.attempt and e.report.acked for e in house.slack.deliveries.events), 20
    )
    assert await heard(house, run_id) == [("and order 8?", ADA)]


@pytest.mark.budgets
async def test_a_message_is_not_lost_when_slack_does_not_tell_who_wrote_it(house: House) -> None:
    """A failed look-up of the author makes Slack send the event again; it is neither accepted nor dropped."""
    run_id, ts = await thread_of_a_run(house)
    house.ctx.directory.forget("U0ADA")
    house.slack.faults.error("users.info", "internal_error")
    house.slack.person("U0ADA").say("C0AGENTS", "and order 8?", thread_ts=ts)
    await house.slack.wait_for(
        lambda: any(e.attempt and e.report.acked for e in house.slack.deliveries.events), 20
    )
    assert await heard(house, run_id) == [("and order 8?", ADA)]


@pytest.mark.budgets
async def test_a_reply_is_not_lost_while_the_thread_is_not_known(house: House) -> None:
    """A reply that comes before Slack's answer about the run's first message is sent again, and then it counts."""
    run_id, ts = await thread_of_a_run(house)
    house.owner.execute("UPDATE agent_run SET thread_ts = NULL WHERE id = %s", (run_id,))
    house.slack.person("U0ADA").say("C0AGENTS", "and order 8?", thread_ts=ts)
    await house.slack.wait_for(lambda: [e for e in house.slack.deliveries.events if not e.report.acked])
    house.owner.execute("UPDATE agent_run SET thread_ts = %s WHERE id = %s", (ts, run_id))
    await house.slack.wait_for(
        lambda: any(e.attempt and e.report.acked for e in house.slack.deliveries.events), 20
    )
    assert await heard(house, run_id) == [("and order 8?", ADA)]


async def test_every_event_is_acknowledged(house: House) -> None:
    """Events that nothing is done about are answered, so that Slack does not call the app broken."""
    house.slack.person("U0ADA").open_home()
    house.slack.workspace.emit({"type": "reaction_added", "user": "U0ADA", "reaction": "white_check_mark"})
    house.slack.workspace.emit({"type": "channel_rename", "channel": {"id": "C0AGENTS", "name": "x"}})
    await settled(house, 3)


async def test_events_make_the_directory_forget(house: House) -> None:
    """A change of a group, a channel or an account counts when Slack's event arrives, not after a minute."""
    directory, workspace = house.ctx.directory, house.slack.workspace
    grace, approvers = Person(TEAM, "U0GRACE"), ["S0FINANCE", "channel"]
    assert (await directory.standing(grace, approvers, "C0REVIEW")).roles == set(approvers)
    workspace.change_usergroup("S0FINANCE", ["U0LINUS"])
    workspace.leave("C0REVIEW", "U0GRACE")
    await settled(house, 2)
    assert (await directory.standing(grace, approvers, "C0REVIEW")).roles == frozenset()
    workspace.change_member("U0GRACE", deleted=True)
    await settled(house, 3)
    refusal = (await directory.identify(grace)).refusal
    assert refusal is not None
    assert refusal.value == "deactivated"


async def test_two_deliveries_at_once_are_heard_once(http_house: House) -> None:
    """The same event sent five times at the same moment is one message, with Slack's escapes undone once."""
    run_id, ts = await thread_of_a_run(http_house)
    event: dict[str, Any] = {
        "type": "message", "channel": "C0AGENTS", "user": "U0ADA", "team": TEAM,
        "text": "once, &amp;lt; typed", "ts": "1700000000.000900", "thread_ts": ts,
    }  # fmt: skip
    envelope = {
        "type": "event_callback",
        "team_id": TEAM,
        "api_app_id": "A0SIGNOFF",
        "event": event,
        "event_id": "Ev1",
    }
    request = http_house.slack.http.event(envelope)
    reports = await asyncio.gather(*(http_house.slack.send(request) for _ in range(5)))
    assert all(report.acked for report in reports)
    assert await heard(http_house, run_id) == [("once, &lt; typed", ADA)]
