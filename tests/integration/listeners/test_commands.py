"""`/agent` and `/approvals` as people type them, in both modes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent.store import reads
from slackbot.listeners import commands
from slackbot.sandbox import Answer
from tests.integration.asking import ADA, TEAM, ask
from tests.integration.listeners.conftest import House


def shown(answer: Answer) -> str:
    """Everything that the person reads."""
    assert answer.acked
    assert answer.response["response_type"] == "ephemeral"
    return str(answer.response)


async def runs(house: House) -> list[Any]:
    async with house.db.connection() as connection:
        return await reads.recent_runs(connection, team_id=TEAM)


async def test_run_starts_an_agent_for_who_typed_it(house: House) -> None:
    """`/agent run` starts one run with the task as typed, mentions kept as text, for the person who typed it."""
    ada = house.slack.person("U0ADA")
    task = "refund order 7 for @grace, a & b < c, no payload"
    answer = await ada.command("/agent", f"run refunds {task}", "C0AGENTS")
    assert "has started" in shown(answer)
    (run,) = await runs(house)
    assert (run.agent, run.requester, run.channel_id) == ("refunds", ADA, "C0AGENTS")
    assert run.task.startswith("refund order 7 for <@U0GRACE|grace>, a & b < c")


async def test_a_repeated_command_starts_once(house: House) -> None:
    """The same command delivered three times is one run."""
    ada = house.slack.person("U0ADA")
    form = house.slack.interactions.command(
        ada.member,
        house.slack.workspace.channels["C0AGENTS"],
        "/agent",
        "run refunds go",
        "http://127.0.0.1:1/",
    )
    await asyncio.gather(*(house.slack.deliveries.command(form) for _ in range(3)))
    assert len(await runs(house)) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "/agent run"),
        ("help", "/agent run"),
        ("rnu refunds go", 'did you mean "/agent run"'),
        ("refunds order 7", "/agent run refunds"),
        ("run", "Which agent?"),
        ("run refunds", "What should refunds do?"),
        ("run refund order 7", 'did you mean "refunds"'),
        ("run xyzzy order 7", "There are: refunds, reports."),
        ("list", "process_refund"),
        ("status", "No agent has run yet"),
        ("status 0123", "No run has an id"),
        ("status zzz", "No run has an id"),
    ],
)
async def test_every_form_is_answered(http_house: House, text: str, words: str) -> None:
    """Bare, mistyped and incomplete commands get an answer that helps, and start nothing."""
    answer = await http_house.slack.person("U0ADA").command("/agent", text, "C0AGENTS")
    assert words in shown(answer)
    assert await runs(http_house) == []


@pytest.mark.parametrize(
    ("user", "words"),
    [("U0MALLORY", "Guests of this workspace cannot start"), ("U0EVE", "another workspace")],
)
async def test_guests_and_outsiders_start_nothing(http_house: House, user: str, words: str) -> None:
    """Who may not review may not start agents or read lists either, with a sentence of its own."""
    for command, text in (("/agent", "run refunds go"), ("/agent", "status"), ("/approvals", "")):
        assert words in shown(await http_house.slack.person(user).command(command, text, "C0AGENTS"))
    assert await runs(http_house) == []


async def test_no_run_starts_where_outsiders_read(http_house: House) -> None:
    """A channel shared with another organisation is no place for an agent's thread."""
    http_house.slack.workspace.channels["C0AGENTS"].is_ext_shared = True
    answer = await http_house.slack.person("U0ADA").command("/agent", "run refunds go", "C0AGENTS")
    assert "shared with another organisation" in shown(answer)
    assert await runs(http_house) == []


async def test_a_failed_start_is_not_called_a_success(house: House) -> None:
    """Without a database the command says that it is not known whether anything was started."""
    with house.without_database():
        answer = await house.slack.person("U0ADA").command("/agent", "run refunds go", "C0AGENTS")
    assert commands.NOT_KNOWN_STARTED in shown(answer)


async def test_status_shows_runs(http_house: House) -> None:
    """`/agent status` lists runs, and one run by the beginning of its id."""
    ada = http_house.slack.person("U0ADA")
    await ada.command("/agent", "run refunds order 7", "C0AGENTS")
    (run,) = await runs(http_house)
    assert "order 7" in shown(await ada.command("/agent", "status", "C0AGENTS"))
    assert str(run.id) in shown(await ada.command("/agent", f"status {str(run.id)[:20]}", "C0AGENTS"))


async def test_approvals_are_listed_to_those_who_may_see_them(http_house: House) -> None:
    """The list and the details go to the channel's members and the requester, not to others; prefixes suffice."""
    slack = http_house.slack
    asked = await ask(http_house.db)
    slack.workspace.add_member("U0OUT", "out")
    slack.workspace.channels["C0REVIEW"].members.discard("U0ADA")
    for user in ("U0GRACE", "U0ADA"):
        person = slack.person(user)
        assert str(asked.request_id) in shown(await person.command("/approvals", "", "C0AGENTS"))
        details = await person.command("/approvals", f"show {str(asked.request_id)[:18]}", "C0AGENTS")
        assert "process_refund" in shown(details)
        assert "@finance" in shown(details)
        assert "actions" not in {block["type"] for block in details.response["blocks"]}
    out = slack.person("U0OUT")
    assert commands.NONE_IN_YOUR_CHANNELS in shown(await out.command("/approvals", "list", "C0AGENTS"))
    for text in (f"show {asked.request_id}", "show 0", "show nothing"):
        assert commands.NO_SUCH_REQUEST in shown(await out.command("/approvals", text, "C0AGENTS"))


async def test_an_ambiguous_prefix_is_said(http_house: House) -> None:
    """Two requests that begin alike are not guessed between."""
    first, second = await ask(http_house.db), await ask(http_house.db)
    common = str(first.request_id)[:4]
    assert str(second.request_id).startswith(common)
    answer = await http_house.slack.person("U0GRACE").command("/approvals", f"show {common}", "C0AGENTS")
    assert commands.AMBIGUOUS in shown(answer)


@pytest.mark.parametrize(
    ("text", "words"),
    [("help", "/approvals show"), ("shwo 1", 'did you mean "/approvals show"'), ("show", "Which one?")],
)
async def test_approvals_help(http_house: House, text: str, words: str) -> None:
    """The other command helps as well."""
    assert words in shown(await http_house.slack.person("U0ADA").command("/approvals", text, "C0AGENTS"))
