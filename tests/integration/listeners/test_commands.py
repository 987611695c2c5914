"""`/agent` and `/approvals` as people type them, in both modes."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from agent.domain.run import RunStatus
from agent.domain.short_ids import short_id
from agent.store import views
from agent.usecases import pause
from agent.usecases import runs as runs_of_agents
from signoff.values import Risk
from signoff_demo.sandbox import InteractionResult
from slackbot.cards import (
    ACTION_AGENT,
    ACTION_APPROVE,
    ACTION_CANCEL_RUN,
    ACTION_LIST,
    ACTION_OPEN,
    ACTION_PAGE,
    ACTION_PAGE_BACK,
    ACTION_REJECT,
    FloodDigest,
    flood_digest_card,
)
from slackbot.slack.listeners import agent_form, approvals_command, cancel, listing, slash_commands
from tests.integration.asking import ADA, TEAM, Asked, ask, rule, start
from tests.integration.listeners.conftest import House
from tests.rendered import rendered


def shown(answer: InteractionResult) -> str:
    """Everything that the person reads."""
    assert answer.acked
    assert answer.response["response_type"] == "ephemeral"
    return str(answer.response)


async def runs(house: House) -> list[Any]:
    async with house.db.connection() as connection:
        return await views.recent_runs(connection, team_id=TEAM)


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
        ("help", "/agent run"),
        ("cancel", "Which run?"),
        ("cancel 0123", "no such run"),
        ("cansel 0123", 'did you mean "/agent cancel"'),
        ("rnu refunds go", 'did you mean "/agent run"'),
        ("refunds order 7", "/agent run refunds"),
        ("run", "Which agent?"),
        ("run refunds", "What should refunds do?"),
        ("run\u00a0refunds", "What should refunds do?"),
        ("run\nrefunds\t", "What should refunds do?"),
        ("run refund order 7", 'did you mean "refunds"'),
        ("run xyzzy order 7", "The agents are refunds, reports."),
        ("list", "process_refund"),
        ("status", "No agent has run yet"),
        ("status 0123", "No run that you may see"),
        ("status zzz", "No run that you may see"),
    ],
)
async def test_every_form_is_answered(http_house: House, text: str, words: str) -> None:
    """Bare, mistyped and incomplete commands get an answer that helps, and start nothing."""
    answer = await http_house.slack.person("U0ADA").command("/agent", text, "C0AGENTS")
    assert words in shown(answer)
    assert await runs(http_house) == []


@pytest.mark.parametrize(
    ("command", "text", "meant"),
    [
        ("/agent", "rnu refunds refund order 7", "/agent run refunds refund order 7"),
        ("/agent", "run refund order 7", "/agent run refunds order 7"),
        ("/agent", "refunds order 7", "/agent run refunds order 7"),
        ("/approvals", "shwo 0123", "/approvals show 0123"),
        ("/approvals", "histroy by:<@U0GRACE|grace>", "/approvals history by:@grace"),
        ("/approvals", "history stauts:approved since:7d", "/approvals history status:approved since:7d"),
        ("/approvals", "history since:7d status:aproved", "/approvals history since:7d status:approved"),
        ("/approvals", "history refnds", "/approvals history refunds"),
    ],
)
async def test_a_typo_is_answered_with_the_command_to_copy(
    http_house: House, command: str, text: str, meant: str
) -> None:
    """The whole command that was probably meant stands first and alone, as code; the usage below is one line."""
    answer = await http_house.slack.person("U0ADA").command(command, text, "C0AGENTS")
    first, problem, how = (block["elements"][0]["elements"] for block in answer.response["blocks"])
    assert first == [{"type": "text", "text": meant, "style": {"code": True}}]
    assert len(problem) == 1
    assert how[-1]["text"] == f"{command} help" or how[0]["text"].startswith(f"{command} ")
    assert await runs(http_house) == []


async def test_what_cannot_be_copied_to_the_letter_is_not_offered(http_house: House) -> None:
    """A guess with hidden characters, or a long one, is left to the sentence below."""
    for task in ("refund\u202e order 7", "refund " + "x" * 400):
        answer = await http_house.slack.person("U0ADA").command("/agent", f"rnu refunds {task}", "C0AGENTS")
        assert len(answer.response["blocks"]) == 2
        assert 'did you mean "/agent run"' in shown(answer)


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
    assert slash_commands.NOT_KNOWN_STARTED in shown(answer)


async def test_status_shows_runs(http_house: House) -> None:
    """`/agent status` lists runs, and one run by the beginning of its id."""
    ada = http_house.slack.person("U0ADA")
    await ada.command("/agent", "run refunds order 7", "C0AGENTS")
    (run,) = await runs(http_house)
    assert "order 7" in shown(await ada.command("/agent", "status", "C0AGENTS"))
    assert str(run.id) in shown(await ada.command("/agent", f"status {str(run.id)[:20]}", "C0AGENTS"))


async def test_cancel_is_offered_only_to_whom_it_is_of_use(http_house: House) -> None:
    """`/agent status ID` has the button for the requester, but not for a member who would be refused."""
    await http_house.slack.person("U0ADA").command("/agent", "run refunds order 7", "C0AGENTS")
    (run,) = await runs(http_house)
    for user, offered in (("U0ADA", True), ("U0GRACE", False)):
        answer = shown(await http_house.slack.person(user).command("/agent", f"status {run.id}", "C0AGENTS"))
        assert ("order 7" in answer, ACTION_CANCEL_RUN in answer) == (True, offered), user


async def test_approvals_are_listed_to_those_who_may_see_them(http_house: House) -> None:
    """The list and the details go to the channel's members and the requester, not to others; prefixes suffice."""
    slack = http_house.slack
    asked = await ask(http_house.db)
    slack.workspace.add_member("U0OUT", "out")
    slack.workspace.channels["C0REVIEW"].members.discard("U0ADA")
    for user in ("U0GRACE", "U0ADA"):
        person = slack.person(user)
        assert str(asked.request_id) in shown(await person.command("/approvals", "all", "C0AGENTS"))
        details = await person.command("/approvals", f"show {str(asked.request_id)[:18]}", "C0AGENTS")
        assert "process_refund" in shown(details)
        assert "@finance" in shown(details)
        assert "actions" not in {block["type"] for block in details.response["blocks"]}
    out = slack.person("U0OUT")
    assert str(asked.request_id) not in shown(await out.command("/approvals", "all", "C0AGENTS"))
    for text in (f"show {asked.request_id}", "show 0", "show nothing"):
        answer = await out.command("/approvals", text, "C0AGENTS")
        assert approvals_command.NO_SUCH_REQUEST in shown(answer)
    slack.workspace.change_member("U0OUT", is_admin=True)
    http_house.ctx.directory.forget("U0OUT")
    assert str(asked.request_id) in shown(await out.command("/approvals", "all", "C0AGENTS"))


async def test_each_list_has_its_own(http_house: House) -> None:
    """Bare: what its reader may decide. mine: what they asked for. Nobody's own request is theirs to decide."""
    asked = await ask(http_house.db)
    grace, ada = http_house.slack.person("U0GRACE"), http_house.slack.person("U0ADA")
    for person, text, there in (
        (grace, "", True),
        (ada, "", False),
        (ada, "mine", True),
        (grace, "mine", False),
    ):
        answer = await person.command("/approvals", text, "C0AGENTS")
        assert (str(asked.request_id) in shown(answer)) is there


async def test_what_waits_comes_by_deadline(http_house: House) -> None:
    """A reviewer's list, that of all, and App Home begin with what ends first, whenever it was asked."""
    asked = [await ask(http_house.db, rule(timeout=timedelta(hours=hours))) for hours in (3, 1, 2)]
    expected = [str(asked[number].request_id) for number in (1, 2, 0)]
    slack, grace = http_house.slack, http_house.slack.person("U0GRACE")
    for text in ("", "all"):
        answer = await grace.command("/approvals", text, "C0REVIEW")
        assert opened_by(answer.response) == expected, text
    grace.open_home()
    assert await slack.wait_for(lambda: "Waiting for me (3)" in str(slack.home("U0GRACE")))
    home = slack.home("U0GRACE")
    assert home is not None
    approved = [
        element["value"].split(".")[1]
        for block in home["blocks"]
        if block["type"] == "actions"
        for element in block["elements"]
        if element["action_id"] == ACTION_APPROVE
    ]
    assert approved == expected


async def test_lists_turn_their_pages_in_place(house: House) -> None:
    """Next and Back replace the answer that they stand below, which counts all; what it lists can be opened."""
    for _ in range(listing.PAGE + 1):
        await ask(house.db)
    grace = house.slack.person("U0GRACE")
    await grace.command("/approvals", "", "C0REVIEW")
    (answer,) = house.slack.ephemeral("U0GRACE")
    first = ids_of(answer)
    assert len(first) == listing.PAGE
    assert f"Waiting for you ({listing.PAGE + 1})" in str(answer)

    async def turn(action_id: str, count: int) -> set[str]:
        (shown,) = house.slack.ephemeral("U0GRACE")
        before = ids_of(shown)
        assert (await grace.click(shown, action_id)).acked
        await house.slack.wait_for(lambda: ids_of(house.slack.ephemeral("U0GRACE")[-1]) != before)
        now = ids_of(house.slack.ephemeral("U0GRACE")[-1])
        assert len(now) == count
        return now

    assert not await turn(ACTION_PAGE, 1) & first
    assert await turn(ACTION_PAGE_BACK, listing.PAGE) == first
    (listed,) = house.slack.ephemeral("U0GRACE")
    row = next(block["block_id"] for block in listed["blocks"] if ACTION_OPEN in str(block))
    await grace.click(listed, ACTION_OPEN, block_id=row)
    await house.modal("U0GRACE", "order_id")


def ids_of(message: dict[str, Any]) -> set[str]:
    """The requests that a list shows."""
    return set(opened_by(message))


def opened_by(message: dict[str, Any]) -> list[str]:
    """The requests that a list's buttons open, from the top."""
    pressed = [
        each for block in message["blocks"] if block["type"] == "actions" for each in block["elements"]
    ]
    return [each["value"] for each in pressed if each["action_id"] == ACTION_OPEN]


async def decided(house: House, verdict: str = "approve", user: str = "U0GRACE") -> Asked:
    """A request that somebody has decided on its posted card."""
    asked, card = await house.asked()
    person = house.slack.person(user)
    if verdict == "approve":
        await person.click(card, ACTION_APPROVE)
    else:
        await person.click(card, ACTION_REJECT)
        await person.submit(house.slack.views(user)[-1], {"signoff:reason/signoff:reason_input": "no"})
    return asked


@pytest.mark.parametrize(
    ("text", "approved", "rejected"),
    [
        ("", True, True),
        ("status:approved", True, False),
        ("rejected", False, True),
        ("by:@linus", False, True),
        ("person: @grace", True, False),
        ("@grace", True, False),
        ("agent:refunds since:7d", True, True),
        ("since 2026-01-01", True, True),
        ("since:2026-01-01T00:00:00Z", True, True),
        ("since:2199-01-01", False, False),
        ("until:today", True, True),
        ("until yesterday", False, False),
        ("to:2026-01-01", False, False),
        ("since:1h until:0h", True, True),
        ("mine", True, False),
        ("decided:me", True, False),
        ("decided:@linus", False, True),
        ("requester:@ada", True, True),
        ("for @grace", False, False),
        ("agent:nobody-knows", False, False),
    ],
)
async def test_history_is_filtered(http_house: House, text: str, approved: bool, rejected: bool) -> None:
    """Agent, people, status and days narrow it down, however they are written."""
    yes, no = await decided(http_house), await decided(http_house, "reject", "U0LINUS")
    answer = shown(
        await http_house.slack.person("U0GRACE").command("/approvals", f"history {text}", "C0AGENTS")
    )
    assert (str(yes.request_id) in answer) is approved
    assert (str(no.request_id) in answer) is rejected


async def test_history_finds_the_beginning_of_an_id(http_house: House) -> None:
    """The digits at the end of a list's line, or an id's first ones, with `id:` or without."""
    yes, no = await decided(http_house), await decided(http_house, "reject", "U0LINUS")
    for text in (str(yes.request_id), f"id:{short_id(yes.request_id)}", short_id(yes.request_id)):
        answer = shown(
            await http_house.slack.person("U0GRACE").command("/approvals", f"history {text}", "C0AGENTS")
        )
        assert str(yes.request_id) in answer
        assert str(no.request_id) not in answer
    wrong = await http_house.slack.person("U0GRACE").command("/approvals", "history id:none", "C0AGENTS")
    assert "is not the beginning of an id" in shown(wrong)


async def test_history_links_to_the_thread_and_hides_what_is_not_yours(http_house: House) -> None:
    """Each entry has the address of its card; who is neither in the channel nor concerned sees nothing of it."""
    asked = await decided(http_house)
    slack = http_house.slack
    answer = shown(await slack.person("U0LINUS").command("/approvals", "history", "C0AGENTS"))
    assert "/archives/C0REVIEW/p" in answer
    slack.workspace.add_member("U0OUT", "out").add_member("U0BOSS", "boss", is_admin=True)
    for user, there in (("U0OUT", False), ("U0BOSS", True)):
        answer = shown(await slack.person(user).command("/approvals", "history", "C0AGENTS"))
        assert (str(asked.request_id) in answer) is there


async def test_lists_say_what_became_of_an_approval(http_house: House) -> None:
    """History and one's own requests say that an approved call was not run; history also says who decided."""
    asked = await decided(http_house)
    await runs_of_agents.cancel_by_operator(http_house.db, asked.run_id, "test", "no longer wanted")
    mine = await http_house.slack.person("U0ADA").command("/approvals", "mine", "C0AGENTS")
    history = await http_house.slack.person("U0GRACE").command("/approvals", "history", "C0AGENTS")
    for answer in (mine, history):
        assert "Approved, not run" in shown(answer)
    assert any(line.startswith("decided by @U0GRACE, ") for line in rendered(history.response["blocks"]))


async def test_stats_tell_what_their_reader_may_see(http_house: House) -> None:
    """`/approvals stats`: numbers with their whole, of the last 7, 30 or 90 days; others' requests are in none."""
    await decided(http_house)
    slack = http_house.slack
    answer = shown(await slack.person("U0LINUS").command("/approvals", "stats 30", "C0AGENTS"))
    for words in (
        "last 30 days, for the requests that you may see",
        "1 of 1 (100 %) approved",
        "refunds",
        "U0GRACE",
    ):
        assert words in answer, words
    assert "Votes without opening Details: 1 of 1 (100 %)" in answer
    slack.workspace.add_member("U0OUT", "out").add_member("U0BOSS", "boss", is_admin=True)
    nothing = shown(await slack.person("U0OUT").command("/approvals", "stats", "C0AGENTS"))
    assert "last 7 days, for the requests that you may see" in nothing
    assert "Outcomes: 0; none decided" in nothing
    assert "U0GRACE" not in nothing
    everything = shown(await slack.person("U0BOSS").command("/approvals", "stats", "C0AGENTS"))
    assert "for the whole workspace" in everything
    assert "1 of 1 (100 %) approved" in everything
    assert "7, 30 or 90 days" in shown(
        await slack.person("U0BOSS").command("/approvals", "stats 8", "C0AGENTS")
    )


async def test_a_link_is_asked_for_once(http_house: House) -> None:
    """An address never changes: the second list that needs it does not ask Slack again."""
    await decided(http_house)
    for _ in range(2):
        await http_house.slack.person("U0LINUS").command("/approvals", "history", "C0AGENTS")
    assert len(http_house.slack.calls_of("chat.getPermalink")) == 1


async def test_the_link_of_a_deleted_message_is_asked_for_once(http_house: House) -> None:
    """A deleted message does not come back: later lists leave the link out without asking Slack again."""
    await decided(http_house)
    http_house.slack.faults.error("chat.getPermalink", "message_not_found", times=None)
    for _ in range(2):
        await http_house.slack.person("U0LINUS").command("/approvals", "history", "C0AGENTS")
    assert len(http_house.slack.calls_of("chat.getPermalink")) == 1


async def test_runs_of_other_channels_are_not_listed(http_house: House) -> None:
    """What an agent was asked in a channel is shown to its members, who asked, and administrators."""
    ada = http_house.slack.person("U0ADA")
    await ada.command("/agent", "run refunds a private matter", "C0AGENTS")
    (run,) = await runs(http_house)
    http_house.slack.workspace.add_member("U0OUT", "out").add_member("U0BOSS", "boss", is_admin=True)
    for user, there in (("U0OUT", False), ("U0GRACE", True), ("U0BOSS", True)):
        for text in ("status", f"status {run.id}"):
            answer = await http_house.slack.person(user).command("/agent", text, "C0REVIEW")
            assert ("a private matter" in shown(answer)) is there


async def test_history_does_without_links(http_house: House) -> None:
    """Slack not giving a link costs the link, not the list."""
    asked = await decided(http_house)
    http_house.slack.faults.error("chat.getPermalink", "internal_error", times=None)
    answer = await http_house.slack.person("U0LINUS").command("/approvals", "history", "C0AGENTS")
    assert str(asked.request_id) in shown(answer)


async def test_the_bare_command_opens_the_form(house: House) -> None:
    """`/agent`: choose, say what for, run; choosing another agent asks for its own inputs; one run, in this channel."""
    ada = house.slack.person("U0ADA")
    assert (await ada.command("/agent", "", "C0AGENTS")).acked
    form = house.slack.views("U0ADA")[-1]
    await ada.click(form, ACTION_AGENT, value="reports", state={"signoff:task/signoff:task_input": "numbers"})
    form = await house.modal("U0ADA", "Quarter")
    field = next(
        block["block_id"] for block in form["blocks"] if block["block_id"].startswith("signoff:input")
    )
    answer = await ada.submit(form, {f"{field}/signoff:field": "Q3"})
    assert answer.error is None
    (run,) = await runs(house)
    assert (run.agent, run.requester, run.channel_id) == ("reports", ADA, "C0AGENTS")
    assert run.task == "numbers\n\nQuarter: Q3"
    await house.ephemeral("U0ADA", "has started")


async def test_a_form_sent_twice_starts_once(http_house: House) -> None:
    """The same submission delivered three times at once is one run."""
    ada = http_house.slack.person("U0ADA")
    await ada.command("/agent", "", "C0AGENTS")
    form = http_house.slack.views("U0ADA")[-1]
    form["state"]["values"]["signoff:task"]["signoff:task_input"]["value"] = "go"
    payload = http_house.slack.interactions.submission(ada.member, form, [])
    answers = await asyncio.gather(*(http_house.slack.deliveries.interactive(payload) for _ in range(3)))
    assert all(answer.acked for answer in answers)
    assert len(await runs(http_house)) == 1


async def test_the_form_says_what_is_wrong(http_house: House) -> None:
    """No task, no run; a channel of outsiders, no run; a database that is away, not known."""
    ada = http_house.slack.person("U0ADA")
    await ada.command("/agent", "", "C0AGENTS")
    form = http_house.slack.views("U0ADA")[-1]
    assert (await ada.submit(form, {})).errors
    with http_house.without_database():
        answer = await ada.submit(form, {"signoff:task/signoff:task_input": "go"})
    assert agent_form.NOT_KNOWN in answer.errors.values()
    http_house.slack.workspace.channels["C0AGENTS"].is_ext_shared = True
    http_house.ctx.directory.forget("C0AGENTS")
    await ada.submit(form, {"signoff:task/signoff:task_input": "go"})
    await http_house.modal("U0ADA", "shared with another organisation")
    assert await runs(http_house) == []


async def test_cancelling_is_the_requesters_or_a_reviewers(house: House) -> None:
    """`/agent cancel`: others are refused, the requester ends the run and what it asked for, a second time is over."""
    asked, _ = await house.asked()
    house.slack.workspace.add_member("U0OUT", "out")
    text = f"cancel {asked.run_id}"
    out = await house.slack.person("U0OUT").command("/agent", text, "C0AGENTS")
    assert "Only the person who started this run" in shown(out)
    assert await house.status(asked.request_id) == "waiting"
    ada = house.slack.person("U0ADA")
    assert cancel.CANCELLED in shown(await ada.command("/agent", text, "C0AGENTS"))
    assert await house.status(asked.request_id) == "cancelled"
    assert cancel.OVER in shown(await ada.command("/agent", text, "C0AGENTS"))


async def test_a_run_is_cancelled_from_its_list(house: House) -> None:
    """The button beside one's own run in `/agent status` ends it."""
    asked, _ = await house.asked()
    ada = house.slack.person("U0ADA")
    await ada.command("/agent", "status", "C0AGENTS")
    (listed,) = house.slack.ephemeral("U0ADA")
    assert (await ada.click(listed, ACTION_CANCEL_RUN)).acked
    await house.ephemeral("U0ADA", "is cancelled")
    assert await house.status(asked.request_id) == "cancelled"


async def test_administrators_stop_agents_and_let_them_go_on(house: House) -> None:
    """`/agent pause` and `/agent resume` are for administrators; a typo is reported, and the log names who paused. The
    list of runs shows the pause.
    """
    house.slack.workspace.add_member("U0ROOT", "root", is_admin=True)
    ada, root = house.slack.person("U0ADA"), house.slack.person("U0ROOT")
    assert "Only administrators" in shown(await ada.command("/agent", "pause", "C0AGENTS"))
    assert await pause.active_pauses(house.db) == []
    assert 'did you mean "refunds"' in shown(await root.command("/agent", "pause refund", "C0AGENTS"))
    await start(house.db)
    assert "refunds is paused" in shown(await root.command("/agent", "pause refunds odd refunds", "C0AGENTS"))
    assert "⏸ Paused" in shown(await ada.command("/agent", "status", "C0AGENTS"))
    (stop,) = await pause.active_pauses(house.db)
    assert (stop.agent, stop.by.rpartition("/")[2], stop.reason) == ("refunds", "U0ROOT", "odd refunds")
    assert "There was no pause for all agents." in shown(await root.command("/agent", "resume", "C0AGENTS"))
    assert "is resumed" in shown(await root.command("/agent", "resume refunds", "C0AGENTS"))
    assert await pause.active_pauses(house.db) == []


async def test_a_digest_opens_its_list(house: House) -> None:
    """The button of a digest card opens those requests of its agent that the reader may see. Requests without a card
    come first; the rest follows after the last page.
    """
    shown_as_card, asked = await ask(house.db), await ask(house.db)
    house.rows("UPDATE card_place SET folded = true WHERE request_id = %s RETURNING 1", asked.request_id)
    card = flood_digest_card(FloodDigest("refunds", 1, Risk.MEDIUM, {"process_refund": 1}))
    await house.client.chat_postMessage(channel="C0REVIEW", text=card.text, blocks=card.blocks)
    grace = house.slack.person("U0GRACE")
    assert (await grace.click(house.slack.messages("C0REVIEW")[-1], ACTION_LIST)).acked
    listed = await house.modal("U0GRACE", str(asked.request_id))
    assert str(shown_as_card.request_id) not in str(listed)
    await grace.click(listed, ACTION_PAGE)
    assert str(asked.request_id) not in str(await house.modal("U0GRACE", str(shown_as_card.request_id)))
    await grace.click(house.slack.messages("C0REVIEW")[-1], ACTION_LIST)
    await grace.click(await house.modal("U0GRACE", str(asked.request_id)), ACTION_OPEN)
    await grace.click(await house.modal("U0GRACE", ACTION_APPROVE), ACTION_APPROVE)
    assert await house.status(asked.request_id) == "approved"
    await grace.click(house.slack.messages("C0REVIEW")[-1], ACTION_LIST)
    await house.modal("U0GRACE", str(shown_as_card.request_id))


async def test_ids_are_short_in_lists_and_every_command_takes_them(http_house: House) -> None:
    """Lists show 16 characters; they find one of several requests and runs of the same millisecond."""
    ada, grace = http_house.slack.person("U0ADA"), http_house.slack.person("U0GRACE")
    asked = [(await ask(http_house.db)).request_id for _ in range(2)]
    listed = codes(await grace.command("/approvals", "all", "C0AGENTS"))
    assert [short_id(each) for each in asked] == listed
    for each in asked:
        answer = await grace.command("/approvals", f"show {short_id(each)}", "C0AGENTS")
        assert str(each) not in str(answer.response["text"])
        assert approvals_command.NO_SUCH_REQUEST not in shown(answer)
        assert f"request {short_id(each)}" in shown(answer)
    await ada.command("/agent", "run refunds go", "C0AGENTS")
    run = max(await runs(http_house), key=lambda run: run.id)
    assert short_id(run.id) in codes(await ada.command("/agent", "status", "C0AGENTS"))
    assert short_id(run.id) in codes(await ada.command("/agent", f"status {short_id(run.id)}", "C0AGENTS"))
    await ada.command("/agent", f"cancel {short_id(run.id)}", "C0AGENTS")
    assert [each.status for each in await runs(http_house) if each.id == run.id] == [RunStatus.CANCELLED]


def codes(answer: InteractionResult) -> list[str]:
    """Everything in the answer that is drawn as code."""
    found: list[str] = []

    def look(part: Any) -> None:
        if isinstance(part, dict):
            if part.get("style") == {"code": True}:
                found.append(part["text"])
            for each in part.values():
                look(each)
        elif isinstance(part, list):
            for each in part:
                look(each)

    look(answer.response["blocks"])
    return found


async def test_an_ambiguous_prefix_is_said(http_house: House) -> None:
    """Two requests that begin alike are not guessed between."""
    first, second = await ask(http_house.db), await ask(http_house.db)
    common = str(first.request_id)[:4]
    assert str(second.request_id).startswith(common)
    answer = await http_house.slack.person("U0GRACE").command("/approvals", f"show {common}", "C0AGENTS")
    assert approvals_command.AMBIGUOUS in shown(answer)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("help", "/approvals show"),
        ("shwo 1", 'did you mean "/approvals show"'),
        ("show", "Which one?"),
        ("inbox", "Home tab"),
        ("histroy", 'did you mean "/approvals history"'),
        ("history stats:approved", 'did you mean "status:"'),
        ("history status:aproved", 'did you mean "approved"'),
        ("history status:waiting", "/approvals all"),
        ("history agent:refnds", 'did you mean "refunds"'),
        ("history since:soon", "is not a time"),
        ("history by:somebody", "is not a person"),
        ("history approvd", 'did you mean "approved"'),
    ],
)
async def test_approvals_help(http_house: House, text: str, words: str) -> None:
    """The other command helps as well."""
    assert words in shown(await http_house.slack.person("U0ADA").command("/approvals", text, "C0AGENTS"))
