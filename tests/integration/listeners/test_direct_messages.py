"""What people write to the app itself, with the scopes of the manifest and no others, in both modes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.domain.rules import Defaults
from agent.runtime.policy_in_force import PolicyInForce
from signoff.values import Person
from tests.integration.asking import TEAM
from tests.integration.listeners.conftest import House
from tests.integration.listeners.test_messages import heard, sent

RUNS = "SELECT agent, task, requester_user_id, channel_id, principal FROM agent_run"


@pytest.fixture
def with_default(house: House) -> None:
    """Policy names the agent for direct messages."""
    policy = replace(house.ctx.services.policy, defaults=Defaults(default_agent="reports"))
    policies = PolicyInForce(house.ctx.db, policy)
    object.__setattr__(house.ctx, "services", replace(house.ctx.services, policies=policies))


def with_app(house: House, user: str) -> str:
    """The conversation of this person with the app."""
    return house.slack.workspace.direct_channel(user).id


def answers(house: House, conversation: str) -> list[dict[str, Any]]:
    """What the app has posted there."""
    return [each for each in house.slack.messages(conversation) if each.get("bot_id")]


async def answered(house: House, conversation: str, words: str) -> None:
    await house.slack.wait_for(lambda: words in str(answers(house, conversation)))


ANSWERS = {
    "": "a task for the policy's default agent",
    "help": "a task for the policy's default agent",
    "what can you do?": "everything about agents",
    "run refnds order 7": "/agent run refunds order 7",
    "run refunds": "What should refunds do?",
}


async def test_what_starts_nothing_is_answered(house: House) -> None:
    """Help, a slip, and anything else while policy names no agent: the conversation says what can be written."""
    for said, answer in ANSWERS.items():
        house.slack.person("U0GRACE").direct(said)
        await answered(house, with_app(house, "U0GRACE"), answer)
    assert house.rows(RUNS) == []


async def test_a_direct_message_starts_an_agent(house: House) -> None:
    """`run AGENT TASK` starts a run in that conversation, once, and a reply in its thread reaches it."""
    message = house.slack.person("U0GRACE").direct("run refunds order 7 & 8")
    await house.slack.wait_for(lambda: house.rows(RUNS))
    conversation = with_app(house, "U0GRACE")
    again = {name: message[name] for name in ("user", "text", "ts", "team")}
    house.slack.workspace.emit({"type": "message", "channel_type": "im", "channel": conversation, **again})
    await house.slack.wait_for(lambda: sent(house, "message") == 2)
    assert house.rows(RUNS) == [("refunds", "order 7 & 8", "U0GRACE", conversation, "slack:direct")]
    root = await house.client.chat_postMessage(channel=conversation, text="a run")
    house.owner.execute("UPDATE agent_run SET thread_ts = %s", (root["ts"],))
    house.slack.person("U0GRACE").say(conversation, "hurry, please", thread_ts=root["ts"])
    await house.slack.wait_for(lambda: sent(house, "message") >= 4)
    ((run_id,),) = house.rows("SELECT id FROM agent_run")
    assert await heard(house, run_id) == [("hurry, please", Person(TEAM, "U0GRACE"))]
    assert house.rows("SELECT count(*) FROM agent_run") == [(1,)]


@pytest.mark.usefixtures("with_default")
async def test_plain_words_are_a_task_for_the_agent_that_policy_names(house: House) -> None:
    """All of them, from members alone; `help` stays help, and another agent can be named."""
    grace = house.slack.person("U0GRACE")
    grace.direct("How was the third quarter?")
    await house.slack.wait_for(lambda: house.rows(RUNS))
    grace.direct("run refunds order 7")
    await house.slack.wait_for(lambda: len(house.rows(RUNS)) == 2)
    grace.direct("Help!")
    await answered(house, with_app(house, "U0GRACE"), "a task for the policy's default agent")
    house.slack.person("U0MALLORY").direct("How was the third quarter?")
    await answered(house, with_app(house, "U0MALLORY"), "Guests of this workspace cannot start agents")
    assert {row[:3] for row in house.rows(RUNS)} == {
        ("reports", "How was the third quarter?", "U0GRACE"),
        ("refunds", "order 7", "U0GRACE"),
    }


async def test_a_conversation_needs_the_scope_of_its_type(house: House) -> None:
    """Without `im:read` Slack does not say what a direct message is, and nothing starts."""
    bot = house.slack.workspace.bot
    house.slack.workspace.bot = replace(bot, scopes=tuple(set(bot.scopes) - {"im:read"}))
    house.slack.person("U0GRACE").direct("run refunds order 7")
    await answered(house, with_app(house, "U0GRACE"), "Slack did not confirm this channel")
    assert house.rows(RUNS) == []
