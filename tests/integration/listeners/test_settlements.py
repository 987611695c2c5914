"""A call in doubt without a card: its line in the run's thread, with buttons for those who may settle it."""

from __future__ import annotations

from typing import Any

from agent.domain.errors import Refusal, sentence
from agent.store import views
from slackbot.cards import ACTION_DONE_CALL, ACTION_RETRY, ACTION_RETRY_CALL, request_card
from slackbot.slack.listeners import clicks
from tests.integration.listeners.conftest import House
from tests.integration.test_settling import doubt_of_two, unasked_doubt


async def doubt_line(house: House) -> dict[str, Any]:
    """The line of such a call, posted into its run's thread as delivery does."""
    run_id, _ = await unasked_doubt(house.db)
    return await house.run_line(run_id, "in_doubt")


async def test_its_requester_settles_it_in_the_thread(house: House) -> None:
    """The line says who may; others get their own refusal, recorded; the first word counts."""
    line = await doubt_line(house)
    assert "who started this run can, or a workspace administrator" in str(line["blocks"])
    assert (await house.slack.person("U0GRACE").click(line, ACTION_DONE_CALL)).acked
    await house.ephemeral("U0GRACE", sentence(Refusal.NOT_YOURS_TO_SETTLE))
    assert house.rows("SELECT actor FROM audit_event WHERE event = 'settlement.refused'") == [
        ("slack:T0SIGNOFF/U0GRACE",)
    ]
    assert (await house.slack.person("U0ADA").click(line, ACTION_DONE_CALL)).acked
    assert house.rows("SELECT verdict::text, user_id FROM settlement") == [("done", "U0ADA")]
    assert (await house.slack.person("U0ADA").click(line, ACTION_RETRY_CALL)).acked
    await house.ephemeral("U0ADA", clicks.NOT_IN_DOUBT)


async def test_an_administrator_settles_it_too(http_house: House) -> None:
    """Being one is looked up at the click."""
    line = await doubt_line(http_house)
    http_house.slack.workspace.change_member("U0LINUS", is_admin=True)
    assert (await http_house.slack.person("U0LINUS").click(line, ACTION_RETRY_CALL)).acked
    assert http_house.rows("SELECT verdict::text, user_id FROM settlement") == [("retry", "U0LINUS")]
    assert http_house.rows("SELECT state::text FROM tool_call") == [("ready",)]


async def test_a_copied_button_settles_nothing(http_house: House) -> None:
    """The same buttons in another thread are refused."""
    line = await doubt_line(http_house)
    copy = await http_house.client.chat_postMessage(channel="C0REVIEW", text="copy", blocks=line["blocks"])
    place = {"channel": "C0REVIEW", "ts": copy["ts"]}
    assert (await http_house.slack.person("U0ADA").click(place, ACTION_DONE_CALL)).acked
    await http_house.ephemeral("U0ADA", sentence(Refusal.WRONG_PLACE))
    assert http_house.rows("SELECT count(*) FROM settlement") == [(0,)]


async def test_retry_on_the_card_takes_the_quorum(house: House) -> None:
    """One reviewer's Retry is a vote that the card counts; repeating it gets a notice; the second reviewer's lets the
    call run.
    """
    asked, claim = await doubt_of_two(house.db)
    card = await house.card(asked)
    assert (await house.slack.person("U0GRACE").click(card, ACTION_RETRY)).acked
    assert house.rows("SELECT state::text FROM tool_call") == [("in_doubt",)]
    async with house.db.connection() as connection:
        view = await views.request_view(connection, asked.request_id)
    assert view is not None
    assert "1 of 2 approvals, by" in str(request_card(view).blocks)
    assert (await house.slack.person("U0GRACE").click(card, ACTION_RETRY)).acked
    await house.ephemeral("U0GRACE", sentence(Refusal.SAME_VOTE))
    assert (await house.slack.person("U0LINUS").click(card, ACTION_RETRY)).acked
    assert house.rows("SELECT verdict::text, user_id FROM settlement") == [("retry", "U0LINUS")]
    assert house.rows("SELECT state::text FROM tool_call") == [("ready",)]
    assert house.rows("SELECT user_id FROM retry_vote") == [("U0GRACE",)]
    assert claim.attempt == 1
