"""Whoever asked is told of the outcome: once, where they have chosen, and nobody else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from agent.domain.notify_choice import NotifyChoice
from agent.domain.request import ExecutionStatus
from agent.domain.run import CallExecutor, NewRun, RunStatus, Turn
from agent.domain.schedules import NewSchedule
from agent.store import runs as stored_runs
from agent.usecases import calls, notify_choice, requests, runs, schedules
from agent.usecases.calls import Outcome
from agent.usecases.runs import endings
from signoff.description import action_in_words
from slackbot.slack_api.client import SlackClient
from tests.integration import alone
from tests.integration.asking import (
    ADA,
    GRACE,
    TEAM,
    Asked,
    ask,
    asked_as,
    ballot,
    programs_question,
    question,
    reviewer,
    rule,
    start,
    write,
)
from tests.integration.listeners.conftest import House, house, http_house  # noqa: F401
from tests.integration.test_delivery import CHANNEL, POST, Office, office  # noqa: F401
from tests.integration.test_settling import IN_DOUBT
from tests.unit.cards.conftest import words

REASON = "The order is in dispute <!channel> <@U0LINUS>"
DONE = Outcome(ExecutionStatus.SUCCEEDED, "deployed")
FAILED = Outcome(ExecutionStatus.FAILED, "no such host")


@dataclass
class Program:
    """A program's request, whose card stands."""

    office: Office
    asked: Asked

    async def decide(self, verdict: str, reason: str | None = None) -> None:
        given = ballot(self.asked, reviewer(GRACE), verdict, place=None, reason=reason)
        await alone.vote(self.office.db, given)

    async def report(self, outcome: Outcome) -> None:
        await self.decide("approve")
        claim = await alone.claim(
            self.office.db, self.asked.call_id, worker="key:ci", idempotent=False, token=b"0" * 32
        )
        assert claim is not None
        await alone.report(self.office.db, claim, outcome)

    async def end(self, how: str) -> None:
        match how:
            case "approved":
                await self.decide("approve")
            case "rejected":
                await self.decide("reject", REASON)
            case "expired":
                await expire(self.office)
            case "succeeded":
                await self.report(DONE)
            case "failed":
                await self.report(FAILED)
            case "in doubt":
                await self.report(IN_DOUBT)
            case "lapsed":
                await self.decide("approve")
                await write(self.office.db, "UPDATE tool_call SET lapse_at = clock_timestamp()")
                await requests.lapse_due(self.office.db)

    async def said(self) -> list[dict[str, Any]]:
        """What the card's thread says in the end, however often the service starts and sweeps."""
        for number in range(3):
            await self.office.tell_all()
            await requests.expire_due(self.office.db)
            await requests.lapse_due(self.office.db)
            await calls.rescue(self.office.db)
            self.office.drains[0] = self.office.drain(tell_requester=self.tells)
            if number == 0:
                await self.office.touch(self.asked)
        [card] = self.office.cards()
        return self.office.slack.thread(CHANNEL, card["ts"])[1:]

    tells: bool = True


async def expire(office: Office) -> None:  # noqa: F811
    await office.execute("UPDATE approval_request SET expires_at = created_at + interval '1 microsecond'")
    await requests.expire_due(office.db)


async def program(office: Office, how: str, **changes: Any) -> Program:  # noqa: F811
    nobody_reports = {"approved": {"executor": CallExecutor.NONE}}
    asks = programs_question(rule(), **nobody_reports.get(how, {}), **changes)
    opened = await requests.open(office.db, asks)
    [call_id] = await office.column("SELECT call_id FROM approval_request")
    asked = await asked_as(office.db, opened.request_id, call_id, UUID(int=0))
    await office.tell_all()
    return Program(office, asked)


def mentioning(messages: Sequence[dict[str, Any]], user: str = "U0ADA") -> list[dict[str, Any]]:
    """The messages that call the person, in their text and in their blocks."""
    calling = [each for each in messages if f"<@{user}>" in each["text"]]
    assert all({"type": "user", "user_id": user} in _pieces(each["blocks"]) for each in calling)
    return calling


def _pieces(part: Any) -> list[Any]:
    if isinstance(part, list):
        return [each for some in part for each in _pieces(some)]
    return [part, *_pieces(list(part.values()))] if isinstance(part, dict) else []


OUTCOMES = {
    "approved": "Approved",
    "rejected": "Rejected",
    "expired": "Expired",
    "succeeded": "Done",
    "failed": "Failed",
    "in doubt": "In doubt",
    "lapsed": "lapsed",
}


@pytest.mark.parametrize("how", OUTCOMES)
async def test_each_outcome_of_a_program_mentions_who_asked_once(office: Office, how: str) -> None:  # noqa: F811
    """In the card's thread, in the line that says the outcome; sweeps, restarts and redrawn cards add none."""
    theirs = await program(office, how)
    await theirs.end(how)
    [told] = mentioning(await theirs.said())
    assert OUTCOMES[how] in words(told["blocks"])


async def test_a_settled_doubt_is_an_outcome_of_its_own(office: Office) -> None:  # noqa: F811
    """The doubt rings, and its end rings; a person's vote for another attempt does not."""
    theirs = await program(office, "in doubt")
    await theirs.end("in doubt")
    assert len(mentioning(await theirs.said())) == 1
    [execution] = await office.column("SELECT id FROM execution")
    await requests.settle(office.db, execution, reviewer(GRACE), "done")
    doubt, settled = mentioning(await theirs.said())
    assert "In doubt" in words(doubt["blocks"])
    assert "Settled: marked as done" in words(settled["blocks"])


async def test_words_of_others_ring_for_nobody(office: Office) -> None:  # noqa: F811
    """A reason that names people and a channel is quoted, and mentions only who asked."""
    theirs = await program(office, "rejected")
    await theirs.end("rejected")
    [told] = mentioning(await theirs.said())
    assert "The order is in dispute" in words(told["blocks"])
    assert "<!channel>" not in told["text"]
    assert mentioning([told], "U0LINUS") == []


@pytest.mark.parametrize("how", ["rejected", "succeeded"])
@pytest.mark.parametrize("fault", ["http_500", "reset_after_accept"])
async def test_a_notice_whose_post_is_in_doubt_stands_there_once(
    office: Office,  # noqa: F811
    how: str,
    fault: str,
) -> None:
    """Whether Slack had taken it or not."""
    theirs = await program(office, how)
    getattr(office.slack.faults, fault)(POST)
    await theirs.end(how)
    assert len(mentioning(await theirs.said())) == 1


@pytest.mark.parametrize(
    ("user", "traits"),
    [
        ("U0MALLORY", {}),
        ("U0EVE", {}),
        ("U0NOBODY", {}),
        ("U0GONE", {"deleted": True}),
    ],
)
async def test_nobody_is_mentioned_whom_slack_does_not_confirm(
    office: Office,  # noqa: F811
    user: str,
    traits: dict[str, Any],
) -> None:
    """A guest, an outsider, an invented id, somebody who has left: the outcome stands there without a mention."""
    if traits:
        office.slack.workspace.add_member(user, "gone", **traits)
    theirs = await program(office, "rejected", requester=replace(ADA, user_id=user))
    await theirs.end("rejected")
    said = await theirs.said()
    assert len(said) == 1
    assert mentioning(said, user) == []


async def test_a_person_whom_slack_confirms_later_is_told_then(office: Office) -> None:  # noqa: F811
    """While Slack does not answer about them, the notice waits; it comes once, with its mention."""
    theirs = await program(office, "rejected")
    office.directory.forget_everything()
    office.slack.faults.error("users.info", "internal_error", times=1)
    await theirs.end("rejected")
    assert len(mentioning(await theirs.said())) == 1


async def test_the_setting_turns_mentions_off(office: Office) -> None:  # noqa: F811
    """Without `tell_requester`, outcomes are in the threads, mention nobody, and send no direct message."""
    theirs = await program(office, "rejected")
    theirs.tells = False
    office.drains[0] = office.drain(tell_requester=False)
    direct = await _choose_dm(office)
    await theirs.end("rejected")
    said = await theirs.said()
    assert len(said) == 1
    assert mentioning(said) == []
    await office.tell_all(direct)
    assert office.slack.messages(direct) == []


async def _choose_dm(office: Office) -> str:  # noqa: F811
    client = SlackClient(office.slack.bot_token, office.slack.api_url)
    channel = (await client.conversations_open(users="U0ADA"))["channel"]["id"]
    await notify_choice.choose(office.db, ADA, NotifyChoice.DM, channel)
    return str(channel)


async def test_a_direct_message_has_the_outcome_the_reason_and_the_way_to_the_thread(
    office: Office,  # noqa: F811
) -> None:
    """It comes once, instead of the mention, and says what it is about."""
    direct = await _choose_dm(office)
    theirs = await program(office, "rejected")
    await theirs.end("rejected")
    said = await theirs.said()
    assert len(said) == 1
    assert mentioning(said) == []
    await office.tell_all(direct)
    [message] = office.slack.messages(direct)
    shown = words(message["blocks"])
    assert "Refund 1500 for order 0 · open the thread" in shown
    assert "Rejected by U0GRACE" in shown
    assert "The order is in dispute" in shown
    assert "<!channel>" not in message["text"]


async def test_a_direct_message_describes_an_action_as_its_card_does(office: Office) -> None:  # noqa: F811
    """Long values are cut after secrets are masked, and what the checkpoint hides is hidden."""
    direct = await _choose_dm(office)
    token = "ghp_" + "a1B2" * 9
    described = action_in_words("note", {"text": f"{'word ' * 38}{token}{' word' * 30}"}).text
    theirs = await program(office, "rejected", description=described)
    await theirs.end("rejected")
    await theirs.said()
    await office.tell_all(direct)
    [message] = office.slack.messages(direct)
    shown = words(message["blocks"]).partition(" · open the thread")[0]
    assert shown.startswith("note · text: “word word")
    assert re.search(r"…” \(\+\d+ characters\)$", shown), shown
    assert "ghp_" not in str(message)
    assert not {"\u2068", "\u2069"} & set(message["text"])


async def test_off_is_off(office: Office) -> None:  # noqa: F811
    """Who wants no notice gets none; what stands in the thread stays."""
    await notify_choice.choose(office.db, ADA, NotifyChoice.OFF)
    theirs = await program(office, "rejected")
    await theirs.end("rejected")
    said = await theirs.said()
    assert len(said) == 1
    assert mentioning(said) == []
    assert await office.column("SELECT id FROM delivery WHERE kind = 'direct'") == []


# --- runs: the run's end, in its thread ----------------------------------------------------------------


async def _thread(office: Office) -> list[dict[str, Any]]:  # noqa: F811
    await office.tell_all()
    await office.tell_all("C0AGENTS")
    [root] = office.slack.messages("C0AGENTS")
    return office.slack.thread("C0AGENTS", root["ts"])[1:]


async def _answer(office: Office, run_id: UUID, answer: str | None) -> None:  # noqa: F811
    leased = await alone.lease(office.db, run_id, "worker-1")
    assert leased is not None
    await alone.record_turn(office.db, leased.lease, Turn(answer, (), 10, leased.heard))


@pytest.mark.parametrize("answer", ["It was not refunded.", None])
async def test_a_run_tells_once_with_its_last_answer(office: Office, answer: str | None) -> None:  # noqa: F811
    """A rejection on the way rings for nobody; the end says what became of the actions, in the service's words."""
    asked = await ask(office.db)
    await alone.vote(office.db, ballot(asked, reviewer(GRACE), "reject", place=None, reason=REASON))
    await runs.answer_call(office.db, asked.call_id)
    assert mentioning(await _thread(office)) == []
    await _answer(office, asked.run_id, answer)
    [told] = mentioning(await _thread(office))
    assert "For U0ADA · Actions: rejected" in words(told["blocks"])
    assert (answer or "(nothing)") in words(told["blocks"])
    [card] = office.cards()
    assert mentioning(office.slack.thread(CHANNEL, card["ts"])[1:]) == []


async def test_an_answer_with_calls_open_is_a_step(office: Office) -> None:  # noqa: F811
    """While a background call waits for people, an answer rings for nobody."""
    run_id, (call_id,) = await start(office.db)
    await requests.open(office.db, question(run_id, call_id, rule(), background=True))
    await _answer(office, run_id, "People are asked; I tell you more then.")
    assert mentioning(await _thread(office)) == []
    await expire(office)
    await runs.answer_call(office.db, call_id)
    await _answer(office, run_id, "Nobody decided.")
    [told] = mentioning(await _thread(office))
    assert "Actions: expired" in words(told["blocks"])


@pytest.mark.parametrize("status", [RunStatus.FAILED, RunStatus.DENIED])
async def test_a_run_that_ends_without_an_answer_tells(office: Office, status: RunStatus) -> None:  # noqa: F811
    """A failed run and a stopped one mention who asked in the line that says so."""
    run_id, _ = await start(office.db)
    await _end(office, run_id, status)
    [told] = mentioning(await _thread(office))
    assert "no model" in words(told["blocks"])


async def _end(office: Office, run_id: UUID, status: RunStatus) -> None:  # noqa: F811
    async with office.db.transaction() as tx:
        run = await stored_runs.lock(tx, run_id)
        assert run is not None
        await endings.end(tx, await endings.lock(tx, [run]), [run], endings.RunEnding(status, "no model"))


async def test_a_start_that_was_missed_tells(office: Office) -> None:  # noqa: F811
    """The owner of a schedule reads in the run's thread why it did not start."""
    weekly = NewSchedule("refunds", "refund order 7", "0 9 * * 1", "UTC", ADA)
    schedule = await schedules.add(office.db, weekly, by="cli:ada")
    assert schedule.next_at is not None
    new = NewRun("refunds", "1", "refund order 7", "schedule", ADA, "slack", TEAM, "C0AGENTS")
    late = schedule.next_at + timedelta(days=1)
    assert await schedules.start(office.db, schedule, schedule.next_at, late, new, "nobody could start it")
    [told] = mentioning(await _thread(office))
    assert "nobody could start it" in words(told["blocks"])


@pytest.mark.parametrize(("by", "rings"), [(ADA, 0), (GRACE, 1)])
async def test_a_cancelled_run_tells_unless_they_did_it(office: Office, by: Any, rings: int) -> None:  # noqa: F811
    """Who ends their own run knows; who reviews it and ends it is news."""
    asked = await ask(office.db)
    assert await runs.cancel(office.db, asked.run_id, replace(reviewer(GRACE), person=by))
    assert len(mentioning(await _thread(office))) == rings


@pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.FAILED])
async def test_a_child_run_s_end_is_a_step(office: Office, status: RunStatus) -> None:  # noqa: F811
    """Its agent's answer, or that it failed, goes to the run above it, which tells."""
    parent, (call_id,) = await start(office.db)
    calls_of_child = 0 if status is RunStatus.COMPLETED else 1
    child, _ = await start(office.db, calls=calls_of_child, parent_run_id=parent, parent_call_id=call_id)
    if status is RunStatus.FAILED:
        await _end(office, child, status)
    await office.tell_all("C0AGENTS")
    rung = [
        told
        for root in office.slack.messages("C0AGENTS")
        for told in mentioning(office.slack.thread("C0AGENTS", root["ts"])[1:])
    ]
    assert rung == []
    assert await office.column("SELECT status FROM agent_run WHERE id = :id", id=child) == [status]


async def test_a_direct_message_about_a_run_has_the_answer_and_no_button(office: Office) -> None:  # noqa: F811
    """Buttons count in the thread only, so the message leads there; the reviewer's reason is with it."""
    direct = await _choose_dm(office)
    asked = await ask(office.db)
    await alone.vote(office.db, ballot(asked, reviewer(GRACE), "reject", place=None, reason=REASON))
    await runs.answer_call(office.db, asked.call_id)
    await _answer(office, asked.run_id, "It was not refunded." + "\nMore." * 100)
    assert mentioning(await _thread(office)) == []
    await office.tell_all(direct)
    [message] = office.slack.messages(direct)
    shown = words(message["blocks"])
    assert shown.startswith("refunds: refund order 7 · open the thread")
    assert "Actions: rejected" in shown
    assert "The order is in dispute" in shown
    assert [each for each in message["blocks"] if each["type"] == "actions"] == []


async def test_a_run_in_that_conversation_has_one_notice(office: Office) -> None:  # noqa: F811
    """Who started the agent in their direct messages reads the outcome in its thread there."""
    direct = await _choose_dm(office)
    run_id, _ = await start(office.db, calls=0, channel_id=direct)
    assert await office.column("SELECT status FROM agent_run WHERE id = :id", id=run_id) == ["completed"]
    await office.tell_all(direct)
    [root] = office.slack.messages(direct)
    assert len(mentioning(office.slack.thread(direct, root["ts"])[1:])) == 1


# --- the choice, as people make it ---------------------------------------------------------------------


async def test_people_choose_with_a_command(house: House) -> None:  # noqa: F811
    """`/approvals notify` says how they are told, and changes it; only for who typed it."""
    ada = house.slack.person("U0ADA")

    async def answer(text: str) -> str:
        return str((await ada.command("/approvals", text, "C0AGENTS")).response)

    told = await answer("notify")
    assert "mentioned in the thread" in told
    assert "/approvals notify dm, " in told  # as one types it
    assert "direct message" in await answer("notify dm")
    [(channel,)] = house.rows("SELECT channel_id FROM notify_choice WHERE user_id = 'U0ADA'")
    assert house.slack.workspace.channels[channel].is_im
    assert "Nobody mentions you" in await answer("notify OFF")
    assert "Nobody mentions you" in await answer("notify")
    assert "notify thread" in await answer("notify email")
    assert await notify_choice.find(house.db, ADA) is NotifyChoice.OFF
    assert await notify_choice.find(house.db, GRACE) is NotifyChoice.THREAD


async def test_a_conversation_that_slack_does_not_open_changes_nothing(http_house: House) -> None:  # noqa: F811
    """The choice stays as it was, and the answer says so."""
    http_house.slack.faults.error("conversations.open", "internal_error", times=None)
    answer = await http_house.slack.person("U0ADA").command("/approvals", "notify dm", "C0AGENTS")
    assert "nothing was changed" in str(answer.response)
    assert await notify_choice.find(http_house.db, ADA) is NotifyChoice.THREAD


async def test_a_guest_chooses_nothing(http_house: House) -> None:  # noqa: F811
    """Only members have a choice to make."""
    answer = await http_house.slack.person("U0MALLORY").command("/approvals", "notify off", "C0AGENTS")
    assert "Guests" in str(answer.response)
    assert http_house.rows("SELECT * FROM notify_choice") == []
