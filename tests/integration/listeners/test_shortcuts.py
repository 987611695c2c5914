"""Shortcuts as people choose them, in both modes."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from agent.domain.run import ProposedCall, Turn
from agent.store import views
from agent.usecases import requests
from signoff.formats import quoted_lines
from signoff.values import Person
from slackbot.cards.quotation import MAX_CARRIED, Carried, Quotation
from slackbot.masking import clean_text
from slackbot.slack.listeners.run_starts import AUTHOR_UNKNOWN
from slackbot.slack.listeners.shortcuts import MY_APPROVALS, NO_WORDS, QUOTE_MESSAGE
from slackbot.slack_api import manifest
from tests.integration import alone
from tests.integration.asking import ADA, GRACE, TEAM, question, rule
from tests.integration.listeners.conftest import House
from tests.integration.listeners.test_enterprise_grid import hana_joins

TASK = "signoff:task/signoff:task_input"


async def only_run(house: House) -> Any:
    async with house.db.connection() as connection:
        (run,) = await views.recent_runs(connection, team_id=TEAM)
    return run


async def test_my_approvals_opens_what_the_command_shows(house: House) -> None:
    """The list of what waits for the person, in a modal; a guest is told why there is none."""
    asked, _ = await house.asked()
    grace = house.slack.person("U0GRACE")
    assert (await grace.shortcut(MY_APPROVALS)).acked
    shown = await house.modal("U0GRACE", "Waiting for you")
    command = await grace.command("/approvals", "", "C0AGENTS")
    assert str(asked.request_id) in str(shown)
    assert str(asked.request_id) in str(command.response)
    assert (await house.slack.person("U0MALLORY").shortcut(MY_APPROVALS)).acked
    await house.modal("U0MALLORY", "Guests of this workspace")


@pytest.mark.parametrize("in_thread", [False, True])
async def test_an_agent_starts_on_a_message_and_its_author_is_an_instructor(
    house: House, *, in_thread: bool
) -> None:
    """The agent reads task and message, the message as its author's words, whose approval then does not count."""
    grace, ada = house.slack.person("U0GRACE"), house.slack.person("U0ADA")
    message = grace.say("C0AGENTS", "The customer of order 7 wants\ntheir money back & is <angry>")
    if in_thread:
        message = grace.say("C0AGENTS", message["text"], message["ts"])
    assert (await ada.shortcut(QUOTE_MESSAGE, ("C0AGENTS", message["ts"]))).acked
    form = await house.modal("U0ADA", "as the words of")
    assert "their money back & is" in str(form)
    assert (await ada.submit(form, {TASK: "Refund it."})).error is None
    run = await only_run(house)
    assert (run.requester, run.channel_id) == (ADA, "C0AGENTS")
    assert run.task.startswith("Refund it.\n\nA message in Slack, by <@U0GRACE>:\n> The customer of order 7")
    async with house.db.connection() as connection:
        task, quoted = await views.messages(connection, run.id)
    assert (task.author, task.text) == (ADA, "Refund it.")
    assert (quoted.author, quoted.role) == (GRACE, "user")
    assert (quoted.text or "").splitlines()[1:] == [
        "> The customer of order 7 wants",
        "> their money back & is <angry>",
    ]
    leased = await alone.lease(house.db, run.id, "worker-1")
    assert leased is not None
    proposed = ProposedCall("call_1", "process_refund", json.dumps({"order_id": 7}))
    await alone.record_turn(house.db, leased.lease, Turn("Grace asks for it.", (proposed,), 10, leased.heard))
    async with house.db.connection() as connection:
        (call,) = await views.calls(connection, run.id)
    await requests.open(house.db, question(run.id, call.id, rule()))
    ((excluded,),) = house.rows("SELECT excluded FROM approval_request")
    assert {"team": TEAM, "user": "U0GRACE", "why": "instructor"} in excluded


async def test_the_quotation_stays_when_another_agent_is_chosen(house: House) -> None:
    """The form is drawn again for the other agent's inputs, with the same message."""
    message = house.slack.person("U0GRACE").say("C0AGENTS", "Numbers, please")
    ada = house.slack.person("U0ADA")
    await ada.shortcut(QUOTE_MESSAGE, ("C0AGENTS", message["ts"]))
    form = await house.modal("U0ADA", "Numbers, please")
    await ada.click(form, "signoff:agent", value="reports")
    form = await house.modal("U0ADA", "Quarter")
    assert "Numbers, please" in str(form)
    assert (await ada.submit(form, {})).error is None
    run = await only_run(house)
    assert run.agent == "reports"
    assert "> Numbers, please" in run.task


async def test_an_app_s_message_has_no_author(http_house: House) -> None:
    """Words of an app are quoted; nobody is excluded for them."""
    posted = await http_house.client.chat_postMessage(channel="C0AGENTS", text="Alert: disk full")
    ada = http_house.slack.person("U0ADA")
    await ada.shortcut(QUOTE_MESSAGE, ("C0AGENTS", posted["ts"]))
    form = await http_house.modal("U0ADA", "Alert: disk full")
    assert (await ada.submit(form, {TASK: "Look into it."})).error is None
    run = await only_run(http_house)
    async with http_house.db.connection() as connection:
        _, quoted = await views.messages(connection, run.id)
    assert quoted.author is None
    assert quoted.text == "A message in Slack, by an app:\n> Alert: disk full"


async def test_a_message_without_words_starts_nothing(http_house: House) -> None:
    """It is said to who chose it."""
    message = http_house.slack.person("U0GRACE").say("C0AGENTS", " ")
    await http_house.slack.person("U0ADA").shortcut(QUOTE_MESSAGE, ("C0AGENTS", message["ts"]))
    await http_house.ephemeral("U0ADA", NO_WORDS)


async def test_a_message_that_cannot_be_stored_opens_no_form(http_house: House) -> None:
    """The sentence is the one for typed texts."""
    message = http_house.slack.person("U0GRACE").say("C0AGENTS", "Refund \x00 order 7")
    await http_house.slack.person("U0ADA").shortcut(QUOTE_MESSAGE, ("C0AGENTS", message["ts"]))
    await http_house.ephemeral("U0ADA", "cannot be stored")
    assert http_house.slack.views("U0ADA") == []


async def test_nothing_starts_while_slack_does_not_confirm_the_author(house: House) -> None:
    """Hana is at home in another workspace: under that one's id, her own vote would count. She is excluded later."""
    hana_joins(house)
    message = house.slack.person("U0HANA").say("C0AGENTS", "Refund order 7")
    ada = house.slack.person("U0ADA")
    await ada.shortcut(QUOTE_MESSAGE, ("C0AGENTS", message["ts"]))
    form = await house.modal("U0ADA", "Refund order 7")
    house.ctx.directory.forget("U0HANA")
    house.slack.faults.error("users.info", "internal_error", times=None)
    assert (await ada.submit(form, {TASK: "go"})).error is None
    await house.modal("U0ADA", AUTHOR_UNKNOWN)
    assert house.rows("SELECT count(*) FROM agent_run") == [(0,)]
    house.slack.faults.clear()
    house.ctx.directory.forget_everything()
    await ada.shortcut(QUOTE_MESSAGE, ("C0AGENTS", message["ts"]))
    form = await house.modal("U0ADA", "Refund order 7")
    assert (await ada.submit(form, {TASK: "go"})).error is None
    said = "SELECT author_team_id, author_user_id FROM run_message WHERE seq = 2"
    assert house.rows(said) == [(TEAM, "U0HANA")]


async def test_a_key_in_a_long_message_is_masked_where_the_message_is_cut() -> None:
    """A private key without its end, each line of it quoted, and a token at the cut: neither is shown in part."""
    key = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkq/hkiG9w0\n" * 200
    cut = str(Carried("C0AGENTS", Quotation(f"Please look:\n{key}", ADA)))
    carried = Carried.read(cut).quotation
    assert carried is not None
    assert carried.omitted
    shown = await clean_text(f"{carried.heading}\n{quoted_lines(carried.text)}")
    assert "MIIEvQ" not in shown
    token = "ghp_" + "a1B2" * 9
    for fill in range(2780, 2900):
        carried = Carried.read(
            str(Carried("C0AGENTS", Quotation("w " * (fill // 2) + f"{token} more " * 9, ADA)))
        ).quotation
        assert carried is not None
        assert carried.text.split()[-1] in {"w", "more", token}


async def test_a_guest_starts_nothing_on_a_message(http_house: House) -> None:
    """The form opens; what it starts is for members."""
    message = http_house.slack.person("U0GRACE").say("C0AGENTS", "Refund order 7")
    mallory = http_house.slack.person("U0MALLORY")
    await mallory.shortcut(QUOTE_MESSAGE, ("C0AGENTS", message["ts"]))
    form = await http_house.modal("U0MALLORY", "Refund order 7")
    await mallory.submit(form, {TASK: "go"})
    await http_house.modal("U0MALLORY", "Guests")
    async with http_house.db.connection() as connection:
        assert await views.recent_runs(connection, team_id=TEAM) == []


@pytest.mark.parametrize("text", ["x" * 40_000, "\n" * 10 + "y\n" * 20_000, "\x00\x01" * 9_000, "short"])
def test_a_long_message_is_cut_and_the_cut_is_counted(text: str) -> None:
    """What travels with the form fits, comes back as it was, and says how much is missing."""
    whole = Carried("C0AGENTS", Quotation(text, Person(TEAM, "U0GRACE")))
    written = str(whole)
    assert len(written) <= MAX_CARRIED
    read = Carried.read(written)
    assert read.quotation is not None
    assert text == read.quotation.text + text[len(text) - read.quotation.omitted :]
    assert (read.quotation.omitted == 0) == (text == "short")
    assert (f"{read.quotation.omitted:,} more characters" in read.quotation.heading) == (text != "short")


def test_the_manifest_has_the_shortcuts() -> None:
    """Each has a listener, and a name that Slack takes."""
    shortcuts = yaml.safe_load(manifest.render())["features"]["shortcuts"]
    assert {each["callback_id"]: each["type"] for each in shortcuts} == {
        MY_APPROVALS: "global",
        QUOTE_MESSAGE: "message",
    }
    assert all(len(each["name"]) <= 24 for each in shortcuts)
