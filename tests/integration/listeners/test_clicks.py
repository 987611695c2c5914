"""Clicks and rejections through real Bolt, over signed HTTP and over Socket Mode."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from agent.domain.errors import Refusal, sentence
from agent.domain.request import Verdict
from agent.usecases import requests
from signoff_demo.sandbox import ScreenUser
from slackbot.cards import ACTION_APPROVE, ACTION_ASK_AGAIN, ACTION_REJECT, ACTION_RETRY, ButtonValue
from slackbot.reviewing.votes import OUTCOME_UNKNOWN
from slackbot.slack.listeners import clicks
from tests.integration import alone
from tests.integration.asking import GRACE, LINUS, ask, ballot, reviewer, rule
from tests.integration.listeners.conftest import House
from tests.patience import promised
from tests.unit.test_error_codes import DOCUMENTED

REASON = "signoff:reason/signoff:reason_input"


async def test_a_click_is_committed_when_slack_sees_success(house: House) -> None:
    """Approve: what Slack shows as done is in the database, decided by who clicked, and nobody is whispered to."""
    asked, card = await house.asked()
    answer = await house.slack.person("U0GRACE").click(card, ACTION_APPROVE)
    assert answer.acked
    assert await house.status(asked.request_id) == "approved"
    assert house.rows("SELECT user_id, path FROM vote v JOIN decision USING (request_id, user_id)") == [
        ("U0GRACE", "slack_button")
    ]
    await house.ctx.background.finish()
    assert house.slack.ephemeral("U0GRACE") == []


async def test_reject_asks_for_a_reason_and_counts_with_it(house: House) -> None:
    """Reject opens a form at once; submitting it is the vote, with the reason as typed."""
    asked, card = await house.asked()
    grace = house.slack.person("U0GRACE")
    assert (await grace.click(card, ACTION_REJECT)).acked
    assert await house.status(asked.request_id) == "waiting"
    form = house.slack.views("U0GRACE")[-1]
    answer = await grace.submit(form, {REASON: "wrong <order> & customer"})
    assert answer.error is None
    assert house.slack.views("U0GRACE") == []
    assert house.rows("SELECT outcome::text, user_id, reason FROM decision") == [
        ("rejected", "U0GRACE", "wrong <order> & customer")
    ]


async def test_a_refused_rejection_is_said_in_the_form(house: House) -> None:
    """Who may not decide reads why where the reason was typed, and nothing is decided."""
    asked, card = await house.asked()
    ada = house.slack.person("U0ADA")
    await ada.click(card, ACTION_REJECT)
    await ada.submit(house.slack.views("U0ADA")[-1], {})
    assert "not among the reviewers" in str(house.slack.views("U0ADA")[-1]["blocks"])
    assert await house.status(asked.request_id) == "waiting"


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ("U0ADA", "prevent_self_review"),
        ("U0MALLORY", "Guests"),
        ("U0EVE", "another workspace"),
        ("U0BOT", "own bot user"),
    ],
)
async def test_who_may_not_decide_is_told_why_and_recorded(house: House, user: str, words: str) -> None:
    """Requester, guest, outsider, our bot: a sentence of their own, an audit event, no vote."""
    asked, card = await house.asked(rule(approvers=("channel",)))
    answer = await house.slack.person(user).click(card, ACTION_APPROVE)
    assert answer.acked
    await house.ephemeral(user, words)
    assert await house.status(asked.request_id) == "waiting"
    assert house.rows("SELECT count(*) FROM vote") == [(0,)]
    assert house.rows("SELECT count(*) FROM audit_event WHERE event = 'vote.refused'") == [(1,)]


async def test_double_clicks_are_one_vote(house: House) -> None:
    """The same click three times at once and three times in a row: one vote, one decision, always success."""
    asked, card = await house.asked()
    payload = house.slack.person("U0GRACE").click_payload(card, ACTION_APPROVE)
    at_once = await asyncio.gather(*(house.slack.deliveries.interactive(payload) for _ in range(3)))
    in_a_row = [await house.slack.deliveries.interactive(payload) for _ in range(3)]
    assert all(each.acked for each in [*at_once, *in_a_row])
    assert house.rows("SELECT count(*) FROM vote") == [(1,)]
    assert house.rows("SELECT count(*) FROM decision") == [(1,)]
    assert house.rows("SELECT count(*) FROM audit_event WHERE event = 'vote.cast'") == [(1,)]
    assert await house.status(asked.request_id) == "approved"


async def test_a_late_click_is_told_who_decided(house: House) -> None:
    """The second reviewer learns that it is decided, and by whom."""
    _, card = await house.asked()
    await house.slack.person("U0GRACE").click(card, ACTION_APPROVE)
    assert (await house.slack.person("U0LINUS").click(card, ACTION_APPROVE)).acked
    assert "<@U0GRACE>" in await house.ephemeral("U0LINUS", "already approved")


async def test_a_quorum_needs_several_people(house: House) -> None:
    """Two of two: one person's two clicks are one vote, which the answer states; the second person's click decides."""
    asked, card = await house.asked(rule(approvals_required=2))
    grace = house.slack.person("U0GRACE")
    await grace.click(card, ACTION_APPROVE)
    await grace.click(card, ACTION_APPROVE)
    await house.ephemeral("U0GRACE", "counts once")
    assert await house.status(asked.request_id) == "waiting"
    await house.slack.person("U0LINUS").click(card, ACTION_APPROVE)
    assert await house.status(asked.request_id) == "approved"


async def test_two_clicks_at_once_make_a_quorum(house: House) -> None:
    """Two of two who press at the same moment decide: the second vote is counted with the first, not without it."""
    asked, card = await house.asked(rule(approvals_required=2))
    clicks = [house.slack.person(user).click(card, ACTION_APPROVE) for user in ("U0GRACE", "U0LINUS")]
    await asyncio.gather(*clicks)
    assert await house.status(asked.request_id) == "approved"


async def test_a_vote_of_somebody_removed_does_not_count(house: House) -> None:
    """Who left the reviewers between the first and the second vote is not part of the quorum."""
    asked, card = await house.asked(rule(approvals_required=2))
    await house.slack.person("U0GRACE").click(card, ACTION_APPROVE)
    house.slack.workspace.change_usergroup("S0FINANCE", ["U0LINUS"])
    await house.slack.wait_for(lambda: house.slack.deliveries.events)
    await house.slack.person("U0LINUS").click(card, ACTION_APPROVE)
    assert await house.status(asked.request_id) == "waiting"


async def test_an_earlier_vote_in_doubt_makes_the_next_one_wait(house: House) -> None:
    """While Slack does not answer about an earlier voter, the next click is refused and can be repeated."""
    asked, card = await house.asked(rule(approvals_required=2))
    await house.slack.person("U0GRACE").click(card, ACTION_APPROVE)
    house.ctx.directory.forget("U0GRACE")
    await house.ctx.directory.identify(LINUS)
    house.slack.faults.error("users.info", "internal_error")
    linus = house.slack.person("U0LINUS")
    await linus.click(card, ACTION_APPROVE)
    await house.ephemeral("U0LINUS", "try again")
    assert await house.status(asked.request_id) == "waiting"
    await linus.click(card, ACTION_APPROVE)
    assert await house.status(asked.request_id) == "approved"


async def test_a_refusal_is_seen_where_the_button_was_pressed(house: House) -> None:
    """On a card with a thread: in the channel. On a message inside a thread: there. If Slack refuses that: anyhow."""
    _, card = await house.asked()
    inside = {"channel": card["channel"], "thread_ts": card["ts"]}
    reply = await house.client.chat_postMessage(**inside, text="Again", blocks=card["blocks"])
    ada = house.slack.person("U0ADA")
    for ts, thread in ((card["ts"], None), (reply["ts"], card["ts"])):
        await ada.click((card["channel"], ts), ACTION_APPROVE)
        await house.ctx.background.finish()
        assert house.slack.ephemeral("U0ADA")[-1].get("thread_ts") == thread
    house.slack.faults.error("chat.postEphemeral", "user_not_in_channel")
    await ada.click(card, ACTION_APPROVE)
    await house.ctx.background.finish()
    assert len(house.slack.ephemeral("U0ADA")) == 3


async def test_place_and_revision_must_fit(house: House) -> None:
    """A copied button in another message or channel, a foreign nonce, another request's nonce, a stale revision
    and an id that does not exist are all refused, by Approve and by Reject alike, and nothing is decided.
    """
    asked, card = await house.asked()
    other = await ask(house.db)
    copy = await house.card(asked, posted=False)
    elsewhere = await house.card(asked, "C0AGENTS", posted=False)
    good = ButtonValue(asked.nonce, asked.request_id, 1)
    forged: list[tuple[dict[str, Any], str, str]] = [
        (copy, str(good), "does not belong"),
        (elsewhere, str(good), "does not belong"),
        (card, str(ButtonValue("x" * 22, asked.request_id, 1)), "no such request"),
        (card, str(ButtonValue(other.nonce, asked.request_id, 1)), "no such request"),
        (card, str(ButtonValue(asked.nonce, other.request_id, 1)), "no such request"),
        (card, str(ButtonValue(asked.nonce, asked.run_id, 1)), "no such request"),
        (card, str(ButtonValue(asked.nonce, asked.request_id, 2)), "has changed"),
        (card, "approve everything", "older version"),
    ]
    linus = house.slack.person("U0LINUS")
    for message, value, words in forged:
        payload = linus.click_payload(message, ACTION_APPROVE)
        payload["actions"][0]["value"] = value
        assert (await house.slack.deliveries.interactive(payload)).acked
        await house.ctx.background.finish()
        assert words in house.slack.ephemeral("U0LINUS")[-1]["text"]
        if words != "has changed":
            payload = linus.click_payload(message, ACTION_REJECT)
            payload["actions"][0]["value"] = value
            await house.slack.deliveries.interactive(payload)
            await house.ctx.background.finish()
            assert house.slack.views("U0LINUS") == []
            assert words in house.slack.ephemeral("U0LINUS")[-1]["text"]
    assert await house.status(asked.request_id) == "waiting"
    assert house.rows("SELECT count(*) FROM vote") == [(0,)]
    assert (await linus.click(card, ACTION_APPROVE)).acked
    assert await house.status(asked.request_id) == "approved"


async def test_a_form_does_not_outlive_its_place(house: House) -> None:
    """A submission whose carried place was tampered with, or that carries nothing, is not counted."""
    asked, card = await house.asked()
    grace = house.slack.person("U0GRACE")
    for carried in (f"{asked.nonce}", f"{ButtonValue(asked.nonce, asked.request_id, 1)} C0REVIEW 1.000001"):
        await grace.click(card, ACTION_REJECT)
        form = house.slack.views("U0GRACE")[-1]
        house.slack.workspace.modals._stacks["U0GRACE"][-1]["private_metadata"] = carried
        await grace.submit(form, {})
        assert "Not recorded" in str(house.slack.views("U0GRACE")[-1]["title"])
    assert await house.status(asked.request_id) == "waiting"


async def test_a_card_whose_post_is_in_doubt_can_be_clicked(house: House) -> None:
    """While a card's ts is not stored its nonce binds the message of the first valid click, and only that one."""
    asked = await ask(house.db, rule(approvals_required=2))
    first = await house.card(asked, posted=False)
    second = await house.card(asked, posted=False)
    assert (await house.slack.person("U0GRACE").click(first, ACTION_APPROVE)).acked
    await house.slack.person("U0LINUS").click(second, ACTION_APPROVE)
    await house.ephemeral("U0LINUS", "does not belong")
    assert house.rows("SELECT ts FROM card_place WHERE request_id = %s", asked.request_id) == [(first["ts"],)]


@pytest.mark.budgets
@pytest.mark.parametrize("fault", ["stuck", "gone"])
async def test_an_unknown_outcome_is_never_shown_as_success(house: House, fault: str) -> None:
    """A database that is stuck or gone: Slack shows a failure, the person reads within three seconds that trying
    again is safe, and trying again counts.
    """
    asked, card = await house.asked()
    grace = house.slack.person("U0GRACE")
    began = time.monotonic()
    with house.stuck(asked.request_id) if fault == "stuck" else house.without_database():
        answer = await grace.click(card, ACTION_APPROVE)
        await house.ephemeral("U0GRACE", "safe to try again")
    assert time.monotonic() - began < promised(3.5)
    assert not answer.acked
    assert answer.error is not None
    assert await house.status(asked.request_id) == "waiting"
    assert (await grace.click(card, ACTION_APPROVE)).acked
    assert await house.status(asked.request_id) == "approved"


async def test_a_vote_is_the_only_transaction_of_a_click(http_house: House) -> None:
    """Nothing is read before: who may vote is judged under the request's lock, from what Slack has said by then."""
    house = http_house
    asked, card = await house.asked()
    with house.without_database(but_for_votes=True):
        assert (await house.slack.person("U0GRACE").click(card, ACTION_APPROVE)).acked
    assert await house.status(asked.request_id) == "approved"


async def test_slack_is_asked_before_a_vote_waits_for_a_lock(http_house: House) -> None:
    """Whoever has not been looked up lately is looked up while another transaction holds the request, not after it."""
    house = http_house
    asked, card = await house.asked()
    with house.stuck(asked.request_id):
        pressed = asyncio.create_task(house.slack.person("U0GRACE").click(card, ACTION_APPROVE))
        await house.slack.wait_for(
            lambda: [each for each in house.slack.web_api.calls if each.method == "users.info"]
        )
    assert (await pressed).acked
    assert await house.status(asked.request_id) == "approved"


async def test_slack_is_asked_again_about_people_who_may_have_changed(http_house: House) -> None:
    """What was known of Grace is forgotten when Slack tells of a change: her next vote is judged by the new answer."""
    house = http_house
    first, card = await house.asked()
    grace = house.slack.person("U0GRACE")
    assert (await grace.click(card, ACTION_APPROVE)).acked
    assert await house.status(first.request_id) == "approved"
    second, card = await house.asked()
    house.slack.workspace.usergroups["S0FINANCE"].users.remove("U0GRACE")
    house.ctx.directory.forget("S0FINANCE")
    await grace.click(card, ACTION_APPROVE)
    await house.ephemeral("U0GRACE", "not among the reviewers")
    assert await house.status(second.request_id) == "waiting"
    assert house.rows("SELECT count(*) FROM audit_event WHERE event = 'vote.refused'") == [(1,)]


@pytest.mark.budgets
async def test_a_rejection_that_is_not_known_stays_in_the_form(house: House) -> None:
    """A stuck database: the form stays open with what was typed and says that it may be sent again."""
    asked, card = await house.asked()
    grace = house.slack.person("U0GRACE")
    await grace.click(card, ACTION_REJECT)
    form = house.slack.views("U0GRACE")[-1]
    with house.stuck(asked.request_id):
        answer = await grace.submit(form, {REASON: "no"})
    assert answer.errors == {"signoff:reason": OUTCOME_UNKNOWN}
    assert await house.status(asked.request_id) == "waiting"
    await grace.submit(form, {REASON: "no"})
    assert await house.status(asked.request_id) == "rejected"


async def test_slack_not_opening_the_form_is_said(http_house: House) -> None:
    """For any documented error of Slack, nothing is recorded, and the person is asked to press again."""
    house = http_house
    asked, card = await house.asked()
    for number, code in enumerate(DOCUMENTED["views.open"], 1):
        house.slack.faults.error("views.open", code)
        assert (await house.slack.person("U0GRACE").click(card, ACTION_REJECT)).acked
        await house.ctx.background.finish()
        notices = [str(each.get("text")) for each in house.slack.ephemeral("U0GRACE")]
        assert sum(clicks.FORM_NOT_OPENED in each for each in notices) == number, code
        house.client._blocked_until.clear()
    assert await house.status(asked.request_id) == "waiting"


async def test_only_the_requester_asks_again(house: House) -> None:
    """After an expiry the requester's press makes one new call, others are refused, presses repeat safely."""
    asked, card = await house.asked()
    payload = {
        user: _pressing(house.slack.person(user), card, asked, ACTION_ASK_AGAIN)
        for user in ("U0GRACE", "U0ADA")
    }
    await house.slack.deliveries.interactive(payload["U0ADA"])
    await house.ephemeral("U0ADA", clicks.NOT_EXPIRED)
    house.owner.execute("UPDATE approval_request SET expires_at = created_at + interval '1 microsecond'")
    assert await requests.expire_due(house.db) == 1
    await house.slack.deliveries.interactive(payload["U0GRACE"])
    await house.ephemeral("U0GRACE", sentence(Refusal.NOT_YOURS_TO_ASK))
    for _ in range(2):
        assert (await house.slack.deliveries.interactive(payload["U0ADA"])).acked
    await house.ephemeral("U0ADA", clicks.ASKED_AGAIN)
    assert house.rows("SELECT count(*) FROM tool_call WHERE repeats IS NOT NULL") == [(1,)]


async def test_nothing_to_settle_is_said(house: House) -> None:
    """Retry on an execution that is not in doubt changes nothing and says so."""
    asked, card = await house.asked()
    payload = _pressing(house.slack.person("U0GRACE"), card, asked, ACTION_RETRY)
    assert (await house.slack.deliveries.interactive(payload)).acked
    await house.ephemeral("U0GRACE", clicks.NOT_IN_DOUBT)


@pytest.mark.parametrize(
    ("action", "event"), [(ACTION_RETRY, "settlement.refused"), (ACTION_ASK_AGAIN, "ask_again.refused")]
)
async def test_a_copied_button_is_on_record(http_house: House, action: str, event: str) -> None:
    """Retry and Ask again on a copy of the card are refused, and the request's audit chain records it."""
    asked, _ = await http_house.asked()
    copy = await http_house.card(asked, posted=False)
    payload = _pressing(http_house.slack.person("U0GRACE"), copy, asked, action)
    assert (await http_house.slack.deliveries.interactive(payload)).acked
    await http_house.ephemeral("U0GRACE", sentence(Refusal.WRONG_PLACE))
    assert http_house.rows(
        "SELECT event, detail ->> 'refusal', detail ->> 'path' FROM audit_event WHERE event LIKE '%%.refused'"
    ) == [(event, "wrong_place", "slack_button")]


async def test_old_buttons_and_forms_are_answered(house: House) -> None:
    """Ids that this version does not know are acknowledged, do nothing and say that they are old."""
    asked, card = await house.asked()
    grace = house.slack.person("U0GRACE")
    payload = grace.click_payload(card, ACTION_APPROVE)
    payload["actions"][0]["action_id"] = "approve_v0"
    assert (await house.slack.deliveries.interactive(payload)).acked
    await house.ephemeral("U0GRACE", "older version")
    await grace.click(card, ACTION_REJECT)
    house.slack.workspace.modals._stacks["U0GRACE"][-1]["callback_id"] = "form_v0"
    await grace.submit(house.slack.views("U0GRACE")[-1], {})
    assert "older version" in str(house.slack.views("U0GRACE")[-1]["blocks"])
    assert await house.status(asked.request_id) == "waiting"


async def test_votes_by_other_doors_are_seen(house: House) -> None:
    """A reviewer who voted elsewhere and clicks the same again is one vote."""
    asked, card = await house.asked(rule(approvals_required=2))
    await alone.vote(house.db, ballot(asked, reviewer(GRACE), Verdict.APPROVE.value, path="api", place=None))
    await house.slack.person("U0GRACE").click(card, ACTION_APPROVE)
    assert await house.status(asked.request_id) == "waiting"
    assert house.rows("SELECT count(*) FROM vote") == [(1,)]


def _pressing(person: ScreenUser, card: dict[str, Any], asked: Any, action_id: str) -> dict[str, Any]:
    """A press of a button that this card does not show at the moment."""
    payload: dict[str, Any] = person.click_payload(card, ACTION_APPROVE)
    payload["actions"][0] |= {
        "action_id": action_id,
        "value": str(ButtonValue(asked.nonce, asked.request_id, 1)),
    }
    return payload


@pytest.mark.parametrize("ended", ["decided", "expired"])
async def test_a_refused_press_redraws_its_card(house: House, ended: str) -> None:
    """The card showed buttons of a request that has ended: the person gets a notice, and the card is drawn again."""
    asked, card = await house.asked()
    if ended == "decided":
        await alone.vote(house.db, ballot(asked, reviewer(GRACE), place=None))
    else:
        house.rows(
            "UPDATE approval_request SET created_at = created_at - interval '2 days', "
            "expires_at = expires_at - interval '2 days' WHERE id = %s RETURNING 1",
            asked.request_id,
        )
    house.owner.execute("UPDATE delivery SET state = 'sent'")
    await house.slack.person("U0LINUS").click(card, ACTION_APPROVE)
    await house.ctx.background.finish()
    assert house.rows("SELECT kind::text, request_id FROM delivery WHERE state = 'pending'") == [
        ("card", asked.request_id)
    ]


@pytest.mark.parametrize("has_thread", [False, True])
async def test_a_card_that_was_deleted_is_due_again(house: House, has_thread: bool) -> None:
    """Somebody deletes the card of a waiting request: its delivery is informed, also for a card with a thread."""
    asked, card = await house.asked()
    if has_thread:
        await house.client.chat_postMessage(channel="C0REVIEW", text="a line", thread_ts=card["ts"])
    house.owner.execute("UPDATE delivery SET state = 'sent'")
    house.slack.workspace.delete(house.slack.workspace.channels["C0REVIEW"], card["ts"])
    await house.slack.wait_for(lambda: house.rows("SELECT 1 FROM delivery WHERE state = 'pending'"))
    assert house.rows("SELECT request_id FROM delivery WHERE state = 'pending'") == [(asked.request_id,)]


async def test_the_first_message_of_a_run_that_was_deleted_is_due_again(house: House) -> None:
    """Somebody deletes the card: its delivery is informed."""
    asked = await ask(house.db)
    posted = await house.client.chat_postMessage(channel="C0AGENTS", text="the run")
    house.rows("UPDATE agent_run SET thread_ts = %s WHERE id = %s RETURNING 1", posted["ts"], asked.run_id)
    house.owner.execute("UPDATE delivery SET state = 'sent'")
    house.slack.workspace.delete(house.slack.workspace.channels["C0AGENTS"], posted["ts"])
    await house.slack.wait_for(lambda: house.rows("SELECT 1 FROM delivery WHERE state = 'pending'"))
    assert house.rows("SELECT kind::text, run_id FROM delivery WHERE state = 'pending'") == [
        ("run_root", asked.run_id)
    ]


@pytest.mark.parametrize("same_message", [True, False])
async def test_a_button_in_an_attachment_decides_nothing(house: House, same_message: bool) -> None:
    """Our cards have none, so it is in another app's preview: acknowledged and refused, whatever message it names."""
    asked, card = await house.asked()
    click = house.slack.person("U0GRACE").click_payload(card, ACTION_APPROVE)
    place = {"channel_id": "C0REVIEW", "message_ts": card["ts"] if same_message else "1.000001"}
    container = {"type": "message_attachment", "attachment_id": 1, **place}
    assert (await house.slack.deliveries.interactive(click | {"container": container})).acked
    assert await house.status(asked.request_id) == "waiting"
