"""Cards that Slack lets nobody change any more: what happened is said beside them, and by their buttons."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent.domain.errors import Refusal, Refused, sentence
from agent.usecases import requests, undelivered
from signoff_demo.actors import choose
from slackbot.cards import (
    ACTION_APPROVE,
    ACTION_APPROVE_COMMENT,
    ACTION_EDIT,
    ACTION_OPEN,
    ACTION_REJECT,
)
from tests.integration import alone, older_cards
from tests.integration.asking import GRACE, LINUS, Asked, ask, ballot, reviewer, rule
from tests.integration.on_record import put_terms_on_record
from tests.integration.service.conftest import POLICY, House, http_house  # noqa: F401
from tests.integration.test_delivery import CHANNEL, POST, UPDATE, Office, office  # noqa: F401
from tests.integration.test_settling import IN_DOUBT
from tests.integration.web.visiting import data_agent

CLOSED = ("cant_update_message", "edit_window_closed")
NOTE = "Slack no longer lets this card be changed"


async def _end(office: Office, asked: Asked, how: str) -> None:  # noqa: F811
    if how == "Approved":
        await office.approve(asked)
    elif how == "Rejected":
        await alone.vote(office.db, ballot(asked, reviewer(GRACE), "reject", place=None, reason="no"))
    elif how == "Withdrawn":
        await requests.withdraw(office.db, asked.request_id, None, "no longer wanted")
    else:
        await office.execute("UPDATE approval_request SET expires_at = created_at + interval '1 microsecond'")
        await requests.expire_due(office.db)


@pytest.mark.parametrize("code", CLOSED)
@pytest.mark.parametrize("how", ["Approved", "Rejected", "Withdrawn", "Expired"])
async def test_a_closed_card_has_its_outcome_in_its_thread_once(
    office: Office,  # noqa: F811
    how: str,
    code: str,
) -> None:
    """However often Slack refuses the change, and whichever process tries; operators have nothing to do."""
    office.open_admin_channel()
    asked = await ask(office.db)
    await office.tell_all()
    [card] = office.cards()
    office.slack.faults.error(UPDATE, code, times=None)
    await _end(office, asked, how)
    await office.tell_all()
    for _ in range(3):
        office.drains[0] = office.drain(admin=office.drains[0]._admin)
        await office.touch(asked)
        await office.tell_all()
    thread = " ".join(office.lines(card))
    assert thread.count(NOTE) == 1
    assert how in thread.split(NOTE, 1)[0]
    assert ACTION_OPEN in thread
    assert [each["ts"] for each in office.cards()] == [card["ts"]]
    assert await undelivered.list_dead(office.db, 10) == []
    assert await office.operator_messages() == []


async def test_the_thread_of_a_closed_card_names_all_who_approved(office: Office) -> None:  # noqa: F811
    """Not only the last of them, wherever several had to approve."""
    asked = await ask(office.db, rule(approvals_required=2))
    await office.tell_all()
    [card] = office.cards()
    office.slack.faults.error(UPDATE, "edit_window_closed", times=None)
    for person in (GRACE, LINUS):
        await office.approve(asked, person)
    await office.tell_all()
    thread = " ".join(office.lines(card))
    closed = thread.split(NOTE)[0].rsplit("Approved", 1)[-1]
    assert GRACE.user_id in closed
    assert LINUS.user_id in closed


@pytest.mark.parametrize("fault", ["reset_after_accept", "http_500", "crash"])
async def test_the_outcome_of_a_closed_card_survives_a_crash_once(office: Office, fault: str) -> None:  # noqa: F811
    """Slack's answer is lost, or the drain ends between the refused change and the post: it stands there once."""
    asked = await ask(office.db)
    await office.tell_all()
    [card] = office.cards()
    refused = office.slack.faults.error(UPDATE, "edit_window_closed", times=None)
    await office.approve(asked)
    if fault == "crash":
        office.slack.faults.hang(POST, 30)
        telling = asyncio.create_task(office.tell())
        await office.slack.wait_for(lambda: refused.hits and len(office.slack.calls_of(POST)) > 1)
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
        office.drains[0] = office.drain()
    else:
        getattr(office.slack.faults, fault)(POST)
    await office.tell_all()
    await office.touch(asked)
    await office.tell_all()
    assert " ".join(office.lines(card)).count(NOTE) == 1


async def test_a_closed_card_in_doubt_is_posted_again_and_may_close_again(office: Office) -> None:  # noqa: F811
    """People have to settle it, so they get a new card; what came of it is then said in the new card's thread."""
    asked = await ask(office.db)
    await office.tell_all()
    [first] = office.cards()
    office.slack.faults.error(UPDATE, "edit_window_closed", times=None)
    await office.approve(asked)
    claim = await alone.claim(office.db, asked.call_id, worker="w", idempotent=False)
    assert claim is not None
    await alone.report(office.db, claim, IN_DOUBT)
    await office.tell_all()
    second = office.cards()[-1]
    assert second["ts"] != first["ts"]
    await requests.settle(office.db, claim.execution_id, reviewer(GRACE), "done")
    await office.tell_all()
    assert len(office.cards()) == 2
    assert " ".join(office.lines(second)).count(NOTE) == 1


async def test_an_escalated_closed_card_is_posted_again_and_the_earlier_one_counts_no_more(
    office: Office,  # noqa: F811
) -> None:
    """Not even while the new card is still on its way."""
    asked = await ask(office.db, rule(on_timeout="escalate", escalate_to=("U0LINUS",)))
    await office.tell_all()
    [first] = office.cards()
    office.slack.faults.error(UPDATE, "edit_window_closed", times=None)
    await office.execute("UPDATE approval_request SET expires_at = created_at + interval '1 microsecond'")
    await put_terms_on_record(office.db)
    await requests.expire_due(office.db)
    office.slack.faults.error(POST, "internal_error")
    await office.tell()
    assert await office.column("SELECT ts FROM card_place") == [None]
    for _ in range(2):
        with pytest.raises(Refused) as caught:
            await office.approve(asked, ts=first["ts"])
        assert caught.value.code is Refusal.EARLIER_CARD
        await office.tell_all()
    await office.approve(asked)
    assert await office.column("SELECT status::text FROM approval_request") == ["approved"]


async def _pressed(house: House, card: dict[str, Any], action: str, user: str = "U0GRACE") -> str:
    """The one ephemeral answer to a press on what this card showed; no form opens."""
    before = len(house.slack.ephemeral(user))
    assert (await older_cards.press(house.slack, user, card, action)).acked
    *_, said = await house.slack.wait_for(
        lambda: texts if len(texts := house.slack.ephemeral(user)) > before else None
    )
    assert house.slack.views(user) == []
    return str(said["text"])


TASK = "please delete_records table_name=users count=50"
EDITABLE = POLICY + "allow_edit = true\neditor_may_approve = true\n"


async def test_a_button_of_a_closed_card_answers_with_the_outcome(http_house: House) -> None:  # noqa: F811
    """Whichever button, and also to the person who decided; Details in its thread opens the request as it is."""
    house = http_house
    await house.open([data_agent()], EDITABLE)
    await house.ask("U0ADA", TASK)
    card = await house.card()
    house.slack.faults.error(UPDATE, "edit_window_closed", times=None)
    grace = house.slack.person("U0GRACE")
    assert (await grace.click(card, ACTION_APPROVE)).acked
    await house.says(NOTE, channel=CHANNEL)
    for action in (ACTION_APPROVE, ACTION_APPROVE_COMMENT, ACTION_REJECT, ACTION_EDIT):
        for user in ("U0GRACE", "U0LINUS"):
            said = await _pressed(house, card, action, user)
            assert "was already approved by <@U0GRACE>" in said, (action, user)
    [line] = [each for each in house.slack.thread(CHANNEL, card["ts"]) if NOTE in each["text"]]
    await grace.click({**line, "channel": CHANNEL}, ACTION_OPEN)
    await house.slack.wait_for(lambda: "Approved" in str(house.slack.views("U0GRACE")[-1]["blocks"]))


@pytest.mark.parametrize("change", ["voted", "edited"])
async def test_a_button_of_an_earlier_card_leads_to_the_newer_one(http_house: House, change: str) -> None:  # noqa: F811
    """A waiting request goes on on a new card; the earlier one decides nothing, and later says what was decided."""
    house = http_house
    await house.open([data_agent()], f"{EDITABLE}approvals_required = {2 if change == 'voted' else 1}\n")
    await house.ask("U0ADA", TASK)
    first = await house.card()
    house.slack.faults.error(UPDATE, "cant_update_message", times=None)
    grace, linus = house.slack.person("U0GRACE"), house.slack.person("U0LINUS")
    if change == "voted":
        await grace.click(first, ACTION_APPROVE)
    else:
        await choose(house.slack, "U0GRACE", first, ACTION_EDIT)
        await grace.submit(house.slack.views("U0GRACE")[-1], {"signoff:edit:1/signoff:field": "40"})
    second = await house.card(1)
    newer = sentence(Refusal.EARLIER_CARD)
    for action in (ACTION_APPROVE, ACTION_REJECT):
        assert await _pressed(house, first, action, "U0LINUS") == newer
    assert await house.column("SELECT status::text FROM approval_request") == ["waiting"]
    assert (await linus.click(second, ACTION_APPROVE)).acked
    await house.shows("SELECT status::text FROM approval_request", "approved")
    by = "<@U0GRACE> and <@U0LINUS>" if change == "voted" else "<@U0LINUS>"
    for action in (ACTION_APPROVE, ACTION_REJECT):
        assert f"was already approved by {by}" in await _pressed(house, first, action, "U0GRACE")
    await house.says(NOTE, channel=CHANNEL)
    assert (
        len([each for each in house.slack.messages(CHANNEL) if "signoff:approve" in str(each["blocks"])]) == 2
    )
