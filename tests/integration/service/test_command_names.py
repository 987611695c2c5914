"""Names of an installation's own, beside another app in the same workspace."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import yaml

from agent.database import migrations
from agent.database.pools import Database
from agent.domain import checkpoints
from agent.runtime.agents import Agent, Registry
from signoff_demo.sandbox import SlackSandbox
from slackbot import settings
from slackbot.app import Service
from slackbot.cards.command_names import CommandNames
from slackbot.settings import SettingsError
from slackbot.slack.listeners.shortcuts import MY_APPROVALS, QUOTE_MESSAGE
from slackbot.slack_api import manifest
from tests.integration.command import Command
from tests.integration.service.conftest import POLICY, House, a_house

EU = CommandNames("/eu-agent", "/eu-approvals", "Signoff EU")
OURS = {
    "SIGNOFF_AGENT_COMMAND": EU.agent,
    "SIGNOFF_APPROVALS_COMMAND": EU.approvals,
    "SIGNOFF_LABEL": EU.label,
}


def commands(names: CommandNames) -> list[dict[str, Any]]:
    """As an app has them that was created from the manifest."""
    found: list[dict[str, Any]] = yaml.safe_load(manifest.render(None, names))["features"]["slash_commands"]
    return found


async def test_two_services_in_a_workspace_answer_their_own_commands(
    database_url: str, empty_url: str
) -> None:
    """Each with names, database and app of its own; help, hints and errors name the commands that work."""
    await asyncio.to_thread(migrations.upgrade, empty_url)
    async with (
        a_house(database_url, "http") as first,
        SlackSandbox(first.slack.workspace, commands=commands(EU), rate_limits=False, echo=False) as slack,
    ):
        await first.open([Agent("refunds", "Refund orders.")])
        environment = {
            **first.environment,
            **OURS,
            "DATABASE_URL": empty_url,
            "SLACK_BOT_TOKEN": slack.bot_token,
            "SLACK_API_URL": slack.api_url,
            "SLACK_SIGNING_SECRET": slack.signing_secret,
        }
        policy = checkpoints.load(POLICY, filename="checkpoints.toml")
        agents = Registry([Agent("reports", "Write reports.")])
        second = Service(settings.read(environment), Database(empty_url), policy, agents)
        await second.start()
        try:
            slack.request_url = f"http://127.0.0.1:{second.port}/slack/events"
            ada = first.slack.person("U0ADA")

            async def said(command: str, text: str) -> str:
                answer = await ada.command(command, text, "C0AGENTS")
                assert answer.acked, answer
                return str(answer.response)

            assert "refunds" in await said("/agent", "list")
            theirs = await said("/eu-agent", "list")
            assert "reports" in theirs
            assert "refunds" not in theirs
            for text in (
                "help",
                "cansel x",
                "cancel",
                "run",
                "run reprots go",
                "pause reprots",
                "reports go",
            ):
                answered = await said("/eu-agent", text)
                assert "/eu-agent" in answered
                assert "/agent" not in answered.replace("/eu-agent", "")
            for text in (
                "help",
                "shwo",
                "show",
                "stats",
                "history statsu:x",
                "history status:waiting",
                "notify email",
            ):
                answered = await said("/eu-approvals", text)
                assert "/eu-approvals" in answered
                assert "/approvals" not in answered.replace("/eu-approvals", "")
            place = slack.workspace.channels["C0AGENTS"]
            strange = slack.interactions.command(ada.member, place, "/agent", "list", "http://127.0.0.1:1/")
            assert not (await slack.deliveries.command(strange)).acked
        finally:
            await second.stop()


async def test_home_and_forms_name_the_commands_that_work(http_house: House) -> None:
    """Where Slack does not show a page, a form or a list, the sentence names the commands of this installation."""
    await http_house.open([Agent("refunds", "Refund orders.")], **OURS)
    slack, ada = http_house.slack, http_house.slack.person("U0ADA")

    slack.faults.error("views.publish", "invalid_blocks")
    ada.open_home()
    home = await slack.wait_for(lambda: slack.home("U0ADA"))
    assert "`/eu-approvals` and `/eu-agent status` show the same" in str(home)

    message = ada.say("C0AGENTS", "Order 7 is late")
    slack.faults.error("views.open", "invalid_blocks")
    assert (await ada.shortcut(QUOTE_MESSAGE, ("C0AGENTS", message["ts"]))).acked
    assert await slack.wait_for(lambda: "`/eu-agent run " in str(slack.ephemeral("U0ADA")))
    slack.faults.error("views.open", "invalid_blocks")
    assert (await ada.shortcut(MY_APPROVALS)).acked
    shown = await slack.wait_for(lambda: slack.views("U0ADA"))
    assert "or type `/eu-approvals`" in str(shown)


async def test_a_name_belongs_to_the_app_installed_last() -> None:
    """The sandbox gives a command to one app, as Slack does, and back when that app is gone."""
    async with SlackSandbox() as first:
        owners = first.workspace.command_owners
        async with SlackSandbox(first.workspace) as second:
            assert owners["/agent"] is second.stage
        assert "/agent" not in owners


def test_the_manifest_has_the_names(signoff: Command) -> None:
    """`signoff manifest` takes label and commands from the settings, and without them has the usual ones."""
    app = yaml.safe_load(signoff("manifest", **OURS).said)
    assert app["display_information"]["name"] == "Signoff EU"
    assert app["features"]["bot_user"]["display_name"] == "signoff-eu"
    assert [each["command"] for each in app["features"]["slash_commands"]] == ["/eu-agent", "/eu-approvals"]
    assert yaml.safe_load(signoff("manifest").said) == manifest.read()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"SIGNOFF_AGENT_COMMAND": "agent"}, "SIGNOFF_AGENT_COMMAND: must be a slash"),
        ({"SIGNOFF_APPROVALS_COMMAND": "/My Approvals"}, "SIGNOFF_APPROVALS_COMMAND: must be a slash"),
        ({"SIGNOFF_AGENT_COMMAND": "/approvals"}, "must differ"),
        ({"SIGNOFF_LABEL": "x" * 36}, "SIGNOFF_LABEL"),
    ],
)
def test_names_that_slack_would_refuse_are_refused(wrong: dict[str, str], words: str) -> None:
    """Before the service starts, with the name of the setting."""
    with pytest.raises(SettingsError, match=words):
        settings.read(wrong)


def test_only_our_own_words_are_spelled_anew() -> None:
    """Paths and other words that contain a command's name stay."""
    assert EU.spelled("see /agent status, `/approvals`") == "see /eu-agent status, `/eu-approvals`"
    assert EU.spelled("POST /agents, /v1/agent, x/approvals") == "POST /agents, /v1/agent, x/approvals"
