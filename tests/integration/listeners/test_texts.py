"""Text that PostgreSQL cannot store, typed in Slack: refused where it was typed, in both modes."""

from __future__ import annotations

from typing import Any

import pytest

from slackbot.cards import ACTION_APPROVE, ACTION_REJECT
from slackbot.slack.listeners.middleware import objection
from tests.integration.listeners.conftest import House
from tests.integration.listeners.test_commands import runs
from tests.integration.listeners.test_edits import editing_form
from tests.integration.listeners.test_messages import heard, sent, settled, thread_of_a_run

REASON = "signoff:reason/signoff:reason_input"
NOTE = "signoff:edit:2/signoff:field"
TASK = "signoff:task/signoff:task_input"
NUL = "a\x00b"


@pytest.mark.parametrize("text", [NUL, "a\ud800b"], ids=["nul", "surrogate"])
async def test_a_form_says_it_at_the_field(house: House, text: str) -> None:
    """A reason, a changed argument and a task are refused at their fields; the form stays open and nothing is done."""
    asked, card, form = await editing_form(house)
    grace = house.slack.person("U0GRACE")
    assert (await grace.submit(form, {NOTE: text})).errors == {"signoff:edit:2": objection(text)}
    await grace.close(form)
    await grace.click(card, ACTION_REJECT)
    form = house.slack.views("U0GRACE")[-1]
    assert (await grace.submit(form, {REASON: text})).errors == {"signoff:reason": objection(text)}
    await grace.close(form)
    await grace.command("/agent", "", "C0AGENTS")
    answer = await grace.submit(house.slack.views("U0GRACE")[-1], {TASK: text})
    assert answer.errors == {"signoff:task": objection(text)}
    assert await house.status(asked.request_id) == "waiting"
    assert [run.id for run in await runs(house)] == [asked.run_id]


@pytest.mark.parametrize(
    "command", ["/agent run refunds {}", "/agent status {}", "/approvals history agent:{}"]
)
async def test_a_command_is_answered_with_it(house: House, command: str) -> None:
    """Who typed it reads what is wrong, and nothing is started or looked up."""
    name, _, text = command.format(NUL).partition(" ")
    answer = await house.slack.person("U0ADA").command(name, text, "C0AGENTS")
    assert "contains a NUL character" in str(answer.response)
    assert await runs(house) == []


async def test_a_button_with_it_is_none_of_ours(house: House) -> None:
    """A value that cannot be stored is acknowledged, said, and counts for nothing."""
    asked, card = await house.asked()
    payload: dict[str, Any] = house.slack.person("U0GRACE").click_payload(card, ACTION_APPROVE)
    payload["actions"][0]["value"] += "\x00"
    assert (await house.slack.deliveries.interactive(payload)).acked
    await house.ephemeral("U0GRACE", "contains a NUL character")
    assert await house.status(asked.request_id) == "waiting"


async def test_a_message_with_it_is_not_heard(house: House) -> None:
    """In a run's thread and behind a mention the author gets a notice; other messages are ignored."""
    run_id, ts = await thread_of_a_run(house)
    house.slack.person("U0GRACE").say("C0AGENTS", NUL, thread_ts=ts)
    await house.ephemeral("U0GRACE", "contains a NUL character")
    house.slack.person("U0LINUS").say("C0AGENTS", NUL)
    house.slack.person("U0ADA").mention("C0AGENTS", f"run refunds {NUL}")
    await house.ephemeral("U0ADA", "contains a NUL character")
    await house.slack.wait_for(lambda: sent(house, "app_mention") >= 1)
    await settled(house, 5)
    assert await heard(house, run_id) == []
    assert [run.id for run in await runs(house)] == [run_id]
    assert house.slack.ephemeral("U0LINUS") == []
