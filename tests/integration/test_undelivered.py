"""Messages that Slack refuses: each error ends in a card, a plain card, or a report to a person."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx
import pytest

from agent.store import outbox, views
from agent.store.outbox import Destination
from agent.usecases import deliveries, pause, requests, runs, undelivered
from slackbot.app import Service
from slackbot.slack_api.error_codes import Meaning, meaning_of
from tests.integration.asking import REVIEWS, TEAM, Asked, ask
from tests.integration.command import Command
from tests.integration.service.conftest import DELETIONS, House, http_house  # noqa: F401
from tests.integration.test_delivery import A_MINUTE_PASSES, CHANNEL, POST, UPDATE, Office, office  # noqa: F401
from tests.integration.web.visiting import data_agent
from tests.unit.test_error_codes import DOCUMENTED


def card_of(office: Office, asked: Asked) -> str:  # noqa: F811
    """What the one card of this request says."""
    [card] = [m for m in office.cards() if m["metadata"]["event_payload"]["request"] == str(asked.request_id)]
    return str(card["blocks"])


@pytest.mark.parametrize("method", [POST, UPDATE])
async def test_documented_errors_end_in_a_card_or_a_report(office: Office, method: str) -> None:  # noqa: F811
    """For each listed code, and some unlisted ones: a card is there in the end, or operators got a message."""
    office.open_admin_channel()
    asked = await ask(office.db)
    await office.tell_all()
    for code in filter(lambda code: _is_tried(code, method), DOCUMENTED[method]):
        await office.execute("UPDATE outlet SET trouble = NULL, trouble_since = NULL")
        await office.execute("DELETE FROM delivery WHERE kind = 'direct'")
        await office.touch(asked)
        await office.execute("UPDATE delivery SET attempts = 12 WHERE state = 'pending'")
        if method == POST:
            await office.execute("UPDATE card_place SET ts = NULL")
        fault = office.slack.faults.error(method, code)
        await office.tell()
        waits = bool(await office.pending())
        messages = await office.column("SELECT body ->> 'text' FROM delivery WHERE kind = 'direct'")
        meaning = meaning_of(code, method)
        assert fault.hits == 1
        assert waits != (meaning in (Meaning.MESSAGE, Meaning.CLOSED)), code
        assert bool(messages) == (meaning is not Meaning.CLOSED), code  # what was closed is posted again
        await office.hurry()
        await office.tell()
        assert await office.column("SELECT ts IS NOT NULL FROM card_place") == [True], code
        assert await office.pending() == 0, code
    assert await office.column("SELECT DISTINCT state::text FROM delivery WHERE kind = 'card'") == ["sent"]


def _is_tried(code: str, method: str) -> bool:
    """All unknown codes take one way, which a few of them show."""
    shown = {"message_limit_exceeded", "update_failed", "is_inactive", "restricted_action_read_only_channel"}
    return meaning_of(code, method) is not Meaning.UNKNOWN or code in shown


async def test_an_outage_is_told_after_a_minute_of_attempts(office: Office) -> None:  # noqa: F811
    """Operators read of it once, between one and one and a half minutes after the first attempt."""
    office.open_admin_channel()
    await ask(office.db)
    office.slack.faults.http_500(POST, times=None)
    tried, told = 0.0, []
    while tried < 180:
        await office.tell()
        if await office.column("SELECT id FROM delivery WHERE kind = 'direct'"):
            await office.execute("DELETE FROM delivery WHERE kind = 'direct'")
            await office.execute("UPDATE outlet SET trouble = NULL, trouble_since = NULL")
            told.append(tried)
        [wait] = await office.column(
            "SELECT extract(epoch FROM not_before - clock_timestamp()) FROM delivery WHERE kind = 'card'"
        )
        tried += float(wait)
        await office.hurry()
    [after] = told
    assert 50 < after < 90


@pytest.mark.parametrize("code", ["invalid_blocks", "msg_too_long", "metadata_too_large", "no_text"])
async def test_a_card_that_slack_does_not_take_is_shown_plainly(office: Office, code: str) -> None:  # noqa: F811
    """At once, with title, deadline, Details and Reject, and without Approve; operators get one message."""
    office.open_admin_channel()
    asked = await ask(office.db)
    office.slack.faults.error(POST, code)
    await office.tell()
    [card] = [m for m in office.slack.messages(CHANNEL) if "Refund" in m["text"]]
    shown = str(card["blocks"])
    assert "Refund 1500 for order 0" in shown
    assert "Decide before" in shown
    assert ("signoff:reject" in shown, "signoff:details" in shown, "signoff:approve" in shown) == (
        True,
        True,
        False,
    )
    assert await office.column("SELECT ts FROM card_place") == [card["ts"]]

    office.slack.faults.error(UPDATE, code)
    await office.touch(asked)
    await office.tell_all()
    [message] = await office.operator_messages()
    assert code in message
    await office.approve(asked)
    await office.tell_all()
    [card] = [m for m in office.slack.messages(CHANNEL) if m["ts"] == card["ts"]]
    assert "Approved" in str(card["blocks"])


async def test_a_line_that_slack_does_not_take_is_its_text(office: Office) -> None:  # noqa: F811
    """A thread's line whose blocks are refused is posted as plain text."""
    asked = await ask(office.db)
    await office.tell_all()
    await office.approve(asked)
    office.slack.faults.error(POST, "invalid_blocks")
    await office.tell_all()
    [line] = office.lines(office.cards()[0])
    assert "Approved" in line


async def test_what_slack_takes_in_no_form_is_given_up_aloud(office: Office) -> None:  # noqa: F811
    """Operators and the run's thread get a message, the metrics count it, and a retry posts the card; Slack cannot have
    it, so it is not searched for.
    """
    office.open_admin_channel()
    asked = await ask(office.db)
    office.slack.faults.error(POST, "invalid_blocks", times=2)
    await office.tell()
    assert await office.column("SELECT state::text FROM delivery WHERE kind = 'card'") == ["dead"]
    [message] = await office.operator_messages()
    assert "invalid_blocks" in message
    assert "signoff deliveries retry --all" in message
    await office.tell_all("C0AGENTS")
    [root] = office.slack.messages("C0AGENTS")
    thread = str(office.slack.thread("C0AGENTS", root["ts"]))
    assert "invalid_blocks" in thread
    assert "An operator fixes the cause, then runs `signoff deliveries retry --all`" in thread
    [dead] = await undelivered.list_dead(office.db, 10)
    assert (dead.request_id, dead.error) == (asked.request_id, "invalid_blocks")
    async with office.db.connection() as connection:
        assert (await views.service_counts(connection)).dead_messages == 1

    assert await undelivered.retry_dead(office.db, dead.id) == 1
    await office.tell_all()
    assert "signoff:approve" in card_of(office, asked)
    assert await undelivered.list_dead(office.db, 10) == []
    assert office.slack.calls_of("conversations.history") == []


async def test_a_digest_that_slack_takes_in_no_form_hides_nothing(office: Office) -> None:  # noqa: F811
    """Operators get a message, its requests get their cards minute by minute, and the next digest succeeds."""
    admin = Destination(TEAM, "C0ADMIN")
    office.open_admin_channel()
    office.drains[0] = office.drain(cards_per_minute=1, admin=admin)
    await ask(office.db)
    await office.tell_all()
    fault = office.slack.faults.error(POST, "invalid_blocks", times=2)
    for _ in range(3):
        await ask(office.db)
    await office.tell_all()
    assert fault.hits == 2
    assert len(office.cards()) == 1
    assert len(await undelivered.list_dead(office.db, 10)) == 1
    assert "Slack did not accept a message" in str(await office.operator_messages())
    await office.execute(A_MINUTE_PASSES)
    assert await deliveries.unfold(office.db, cards_per_minute=1) == 1
    await office.tell_all()
    assert len(office.cards()) == 2
    [digest] = [message for message in office.slack.messages(CHANNEL) if message not in office.cards()]
    assert "2 requests from agent refunds wait" in digest["text"]
    assert await undelivered.list_dead(office.db, 10) == []


async def give_a_change_up(office: Office) -> Asked:  # noqa: F811
    """Slack refuses a change of a card, in each form; returns whose card it is."""
    asked = await ask(office.db)
    await office.tell_all()
    office.slack.faults.error(UPDATE, "invalid_blocks", times=2)
    await office.touch(asked)
    await office.tell_all()
    return asked


async def test_what_a_later_change_has_made_good_is_not_dead_any_more(office: Office) -> None:  # noqa: F811
    """A change was given up, and the next one has shown the card as it is: nothing is left to mend."""
    asked = await give_a_change_up(office)
    assert len(await undelivered.list_dead(office.db, 10)) == 1
    await office.touch(asked)
    await office.tell_all()
    assert await undelivered.list_dead(office.db, 10) == []


@pytest.mark.parametrize("code", ["message_not_found", "cant_update_message", "edit_window_closed"])
async def test_a_waiting_card_that_cannot_be_changed_is_posted_again(office: Office, code: str) -> None:  # noqa: F811
    """The request waits, so people get a new card; a vote on it counts, and its thread continues there."""
    asked = await ask(office.db)
    await office.tell_all()
    [first] = office.cards()
    office.slack.faults.error(UPDATE, code)
    await office.touch(asked)
    await office.tell_all()
    *_, second = office.cards()
    assert second["ts"] != first["ts"]
    assert await office.column("SELECT ts FROM card_place") == [second["ts"]]
    await office.approve(asked)
    await office.tell_all()
    assert "Approved" in str(office.cards()[-1]["blocks"])
    assert len(office.lines(second)) == 1


async def test_a_decided_card_that_was_deleted_stays_deleted(office: Office) -> None:  # noqa: F811
    """Nobody needs it any more, so it is neither posted again nor reported."""
    office.open_admin_channel()
    asked = await ask(office.db)
    await office.tell_all()
    office.slack.workspace.delete(office.slack.workspace.channels[CHANNEL], office.cards()[0]["ts"])
    await requests.withdraw(office.db, asked.request_id, None, None)
    await office.tell_all()
    assert office.cards() == []
    assert await undelivered.list_dead(office.db, 10) == []
    assert await office.operator_messages() == []


async def test_a_line_whose_card_was_deleted_follows_the_new_card(office: Office) -> None:  # noqa: F811
    """A reminder finds the card of a waiting request deleted: the card is posted again, and the line in its thread."""
    asked = await ask(office.db)
    await office.tell_all()
    office.slack.workspace.delete(office.slack.workspace.channels[CHANNEL], office.cards()[0]["ts"])
    async with office.db.transaction() as tx:
        outbox.enqueue(tx, [outbox.request_line(REVIEWS, asked.request_id, "reminder")])
    await office.tell_all()
    [card] = office.cards()
    assert "signoff:approve" in str(card["blocks"])
    assert len(office.lines(card)) == 1


async def test_a_run_whose_first_message_was_deleted_gets_a_new_one(office: Office) -> None:  # noqa: F811
    """While it works, a new root for a change or a line of its thread; once it has ended only with the line that says
    how.
    """
    office.open_admin_channel()
    run_id = (await ask(office.db)).run_id
    agents = outbox.Destination(REVIEWS.team_id, "C0AGENTS")

    async def after_deleting(*news: outbox.OutboxMessage) -> list[dict[str, Any]]:
        await office.tell_all("C0AGENTS")
        for root in office.slack.messages("C0AGENTS"):
            for message in reversed(office.slack.thread("C0AGENTS", root["ts"])):
                office.slack.workspace.delete(office.slack.workspace.channels["C0AGENTS"], message["ts"])
        async with office.db.transaction() as tx:
            outbox.enqueue(tx, news)
        await office.tell_all("C0AGENTS")
        return office.slack.messages("C0AGENTS")

    root = outbox.run_root(agents, run_id)
    [posted] = await after_deleting(root)
    assert await office.column("SELECT thread_ts FROM agent_run") == [posted["ts"]]
    assert len(await after_deleting(outbox.run_line(agents, run_id, "pending"))) == 1
    [posted] = await after_deleting(outbox.run_line(agents, run_id, "voted"), root)
    assert len(office.slack.thread("C0AGENTS", posted["ts"])) == 2
    await runs.cancel_by_operator(office.db, run_id, "test", "no longer wanted")
    [posted] = await after_deleting(outbox.run_line(agents, run_id, "answer", text="done"))
    assert len(office.slack.thread("C0AGENTS", posted["ts"])) == 2
    assert await after_deleting(root) == []
    assert await undelivered.list_dead(office.db, 10) == []
    assert await office.operator_messages() == []


async def test_what_is_refused_is_given_up_a_day_after_the_deadline(office: Office) -> None:  # noqa: F811
    """Until then it is tried again, however often it was refused; a new message is never given up at once."""
    asked = await ask(office.db)
    office.slack.faults.error(POST, "channel_is_dreaming", times=None)
    await office.execute("UPDATE approval_request SET expires_at = created_at + interval '1 microsecond'")
    for state, old in (("pending", "2 minutes"), ("dead", "25 hours")):
        for table in ("delivery", "approval_request"):
            await office.execute(f"UPDATE {table} SET created_at = created_at - interval '{old}'")
        await office.execute(f"UPDATE approval_request SET expires_at = expires_at - interval '{old}'")
        await office.hurry()
        await office.tell()
        assert await office.column("SELECT state::text FROM delivery WHERE kind = 'card'") == [state]
    assert len(await undelivered.list_dead(office.db, 10)) == 1
    assert asked


async def test_operators_of_a_running_service_find_a_dead_card_and_bring_it_back(
    http_house: House,  # noqa: F811
    signoff: Command,
) -> None:
    """Slack takes neither a card nor its plain form: thread, doctor and metrics report it, and `retry` posts it."""
    house = http_house
    commands: dict[str, str | None] = {**house.environment, "SLACK_APP_TOKEN": None}
    service = await house.open([data_agent()], DELETIONS.replace("C0REVIEW", "C0AGENTS"))
    await pause.pause(
        house.db, None, by="test"
    )  # the run's first message is there before Slack refuses anything
    await house.ask("U0ADA", "please delete_records table_name=users count=50")
    await house.says("Paused")
    fault = house.slack.faults.error(POST, "invalid_blocks", times=2)
    await pause.resume(house.db, None, by="test")

    message = await house.says("A card could not be posted or changed; its request is unaffected")
    assert "An operator fixes the cause, then runs `signoff deliveries retry --all`" in message
    assert "invalid_blocks" in message
    assert fault.hits == 2
    assert await _figures(service) == (1, 1.0)
    examined = await asyncio.to_thread(signoff, "doctor", **commands)
    assert examined.status != 0
    assert "card in C0AGENTS: invalid_blocks" in examined.said
    assert "fix the cause, then `signoff deliveries retry --all`" in examined.said
    listed = await asyncio.to_thread(signoff, "deliveries", **commands)
    assert "invalid_blocks" in listed.said

    [dead] = await house.column("SELECT id::text FROM delivery WHERE state = 'dead'")
    retried = await asyncio.to_thread(signoff, "deliveries", "retry", dead, **commands)
    assert (retried.status, "1 will be retried" in retried.said) == (0, True)
    card = await house.card(channel="C0AGENTS")
    assert "signoff:approve" in str(card["blocks"])
    assert await _figures(service) == (0, 0.0)
    assert "Slack refused" not in (await asyncio.to_thread(signoff, "doctor", **commands)).said


async def _figures(service: Service) -> tuple[int, float]:
    """Current number of messages that `/readyz` and `/metrics` count as given up."""
    service._metrics._read_at = float("-inf")
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{service.port}") as client:
        ready, scraped = (await client.get("/readyz")).json(), (await client.get("/metrics")).text
    [counted] = re.findall(r"^signoff_messages_dead (\S+)$", scraped, re.MULTILINE)
    return ready["dead_messages"], float(counted)
