"""Operators get a message when too few people can still approve a request."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from agent.domain.people import Standing
from agent.usecases import requests
from agent.usecases.requests import Edit
from signoff.values import Action, Person
from tests.integration import alone
from tests.integration.asking import ADA, GRACE, LINUS, REVIEWS, Asked, ask, ballot, reviewer, rule
from tests.integration.on_record import put_terms_on_record
from tests.integration.test_delivery import Office, office  # noqa: F401
from tests.statement_counter import counting


async def reports(office: Office) -> list[str]:  # noqa: F811
    """What operators have been told, once all cards are drawn and their reviewers counted."""
    await office.tell_all()
    await office.drains[0].reviewers.finish()
    return await office.operator_messages()


async def edit(office: Office, asked: Asked, person: Person, revision: int) -> None:  # noqa: F811
    standing = Standing(person, frozenset({person.user_id, "S0FINANCE"}))
    action = Action("process_refund", "1", {"order_id": 100 + revision})
    edited = Edit(asked.request_id, revision, standing, action, {"price": 9}, None, "slack_edit")
    await requests.edit(office.db, edited)


@pytest.mark.parametrize(
    ("terms", "requester", "short"),
    [
        ({"approvers": ("U0GRACE", "U0LINUS")}, GRACE, False),
        ({"approvers": ("U0GRACE",)}, GRACE, True),
        ({"approvers": ("U0GRACE",), "prevent_self_review": False}, GRACE, False),
        ({"approvers": ("S0FINANCE",), "approvals_required": 2}, GRACE, True),
        ({"approvers": ("U0MALLORY",)}, ADA, True),  # a guest
        ({"approvers": ("channel",)}, GRACE, False),
    ],
)
async def test_a_request_is_opened(
    office: Office,  # noqa: F811
    terms: dict[str, Any],
    requester: Person,
    short: bool,
) -> None:
    """Only a request with fewer eligible reviewers than approvals is reported, once, with what it is about."""
    office.open_admin_channel()
    await ask(office.db, rule(**terms), requester=requester)
    lines = await reports(office)
    assert len(lines) == short
    if short:
        assert "Too few reviewers can still approve" in lines[0]
        assert "Refund 1500 for order 0" in lines[0]
    await office.execute("UPDATE delivery SET state = 'pending' WHERE kind = 'card'")
    assert await reports(office) == lines


async def test_a_request_is_edited(office: Office) -> None:  # noqa: F811
    """The edit that takes the last reviewer away is reported, the one before it is not."""
    office.open_admin_channel()
    asked = await ask(office.db, rule(approvers=("U0GRACE", "U0LINUS"), allow_edit=True))
    await edit(office, asked, GRACE, 1)
    assert await reports(office) == []
    await edit(office, asked, LINUS, 2)
    assert len(await reports(office)) == 1


async def test_a_request_is_voted_on(office: Office) -> None:  # noqa: F811
    """Who has approved counts, and is not counted again among those who are left."""
    office.open_admin_channel()
    asked = await ask(office.db, rule(approvals_required=2))
    assert await reports(office) == []
    await alone.vote(office.db, ballot(asked, reviewer(GRACE), place=None))
    assert await reports(office) == []


async def test_a_request_is_escalated(office: Office) -> None:  # noqa: F811
    """More reviewers of whom none may approve either are reported again."""
    office.open_admin_channel()
    terms = rule(approvers=("U0GRACE",), on_timeout="escalate", escalate_to=("U0MALLORY",))
    await ask(office.db, terms, requester=GRACE)
    assert len(await reports(office)) == 1
    await office.execute(
        "UPDATE approval_request SET expires_at = clock_timestamp(), created_at = created_at - interval '1 h'"
    )
    await put_terms_on_record(office.db)
    await requests.expire_due(office.db)
    assert len(await reports(office)) == 2


async def test_a_failed_look_up_is_not_nobody(office: Office) -> None:  # noqa: F811
    """While Slack does not say who reviews nothing is reported; afterwards it is looked up again."""
    office.open_admin_channel()
    office.drains[0].reviewers._again = 0.01
    await ask(office.db, rule(approvers=("S0NOBODY",)))
    office.slack.workspace.add_usergroup("S0NOBODY", "nobody", [])
    office.slack.faults.error("usergroups.users.list", "internal_error", times=3)
    lines = await reports(office)
    assert len(office.slack.calls_of("usergroups.users.list")) == 4
    assert len(lines) == 1


async def test_without_an_admin_channel(office: Office) -> None:  # noqa: F811
    """Nobody is looked up if nobody would get a message."""
    await ask(office.db, rule(approvers=("S0FINANCE",)), requester=GRACE)
    await office.tell_all(REVIEWS.channel_id)
    await office.drains[0].reviewers.finish()
    assert office.slack.calls_of("usergroups.users.list") == []


async def test_a_group_is_emptied(office: Office) -> None:  # noqa: F811
    """When the event comes, one message per set of reviewers says which request waits, and how many more do; other
    requests are not named, and nothing is said twice.
    """
    office.open_admin_channel()
    office.slack.workspace.add_usergroup("S0OTHERS", "others", ["U0GRACE"])
    for order in range(3):
        await ask(office.db, rule(), order=order)
    await ask(office.db, rule(approvers=("S0OTHERS",)), order=9)
    assert await reports(office) == []
    office.slack.workspace.change_usergroup("S0FINANCE", [])
    for _ in range(2):
        office.directory.forget("S0FINANCE")
        office.drains[0].reviewers.changed("S0FINANCE")
        await office.drains[0].reviewers.finish()
    [line] = await reports(office)
    assert "Refund 1500 for order 0" in line
    assert "and 2 more" in line


async def test_a_group_is_emptied_again(office: Office) -> None:  # noqa: F811
    """What was asked since is reported, whichever request was the first before; nothing is said twice of any."""
    office.open_admin_channel()
    asked = [await ask(office.db, order=order) for order in range(3)]
    assert await reports(office) == []
    reviewers = office.slack.workspace.usergroups["S0FINANCE"].users

    async def empty() -> list[str]:
        office.slack.workspace.change_usergroup("S0FINANCE", [])
        office.directory.forget("S0FINANCE")
        office.drains[0].reviewers.changed("S0FINANCE")
        return await reports(office)

    members = list(reviewers)
    assert len(await empty()) == 1
    await requests.withdraw(office.db, asked[0].request_id, None, None)
    office.slack.workspace.change_usergroup("S0FINANCE", members)
    office.directory.forget("S0FINANCE")
    await ask(office.db, order=7)
    assert len(await reports(office)) == 1
    _, line = await empty()
    assert "for order 7" in line
    assert "… and" not in line
    assert len(await empty()) == 2


@pytest.mark.parametrize(
    ("terms", "change", "slack_id"),
    [
        ({}, lambda w: w.change_member("U0GRACE", deleted=True), "U0GRACE"),
        ({"approvers": ("channel",)}, lambda w: w.channels["C0REVIEW"].members.clear(), "C0REVIEW"),
        ({"approvers": ("U0GRACE",)}, lambda w: w.change_member("U0GRACE", is_restricted=True), "U0GRACE"),
    ],
)
async def test_the_last_reviewer_goes(
    office: Office,  # noqa: F811
    terms: dict[str, Any],
    change: Any,
    slack_id: str,
) -> None:
    """Whoever leaves, is deactivated or becomes a guest: the request that only they could approve is reported."""
    office.open_admin_channel()
    office.slack.workspace.change_usergroup("S0FINANCE", ["U0GRACE"])
    await ask(office.db, rule(**terms))
    assert await reports(office) == []
    change(office.slack.workspace)
    office.directory.forget(slack_id)
    office.drains[0].reviewers.changed(slack_id)
    assert len(await reports(office)) == 1


async def test_a_lost_event_is_found_by_the_hourly_look(
    office: Office,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without any event, all waiting requests are counted again after an hour, and no earlier; while Slack does not
    answer, the look is repeated.
    """
    office.open_admin_channel()
    check = office.drains[0].reviewers
    check._again = 0.01
    await ask(office.db, rule())
    assert await reports(office) == []
    check.look_if_due()
    await check.finish()
    office.slack.workspace.change_usergroup("S0FINANCE", [])
    office.directory.forget("S0FINANCE")
    check.look_if_due()
    assert await reports(office) == []
    monkeypatch.setattr("slackbot.delivery.reviewer_check.EVERY", 0.0)
    office.slack.faults.error("usergroups.users.list", "internal_error")
    check.look_if_due()
    assert len(await reports(office)) == 1


async def test_an_outage_costs_little(office: Office) -> None:  # noqa: F811
    """While Slack describes nobody, a look asks about three accounts, however many people review and requests wait;
    each further look comes after twice as long.
    """
    people = [f"U1{number:03d}" for number in range(20)]
    for user in people:
        office.slack.workspace.add_member(user, user.lower())
    office.slack.workspace.change_usergroup("S0FINANCE", people)
    for order in range(5):
        await ask(office.db, rule(), order=order)
    office.open_admin_channel()
    fault = office.slack.faults.http_500("users.info", times=None)
    check = office.drains[0].reviewers
    check._again = 0.02
    check.look_if_due()
    await office.slack.wait_for(lambda: fault.hits >= 15)
    await check.stop()
    asked = [call.at for call in office.slack.calls_of("users.info")]
    looks = [at for number, at in enumerate(asked) if number % 3 == 0]
    pauses = [later - earlier for earlier, later in itertools.pairwise(looks)]
    assert all(pause > 0.9 * 0.02 * 2**number for number, pause in enumerate(pauses)), pauses
    assert await office.operator_messages() == []


async def test_what_stays_unknown_holds_up_nothing_else(office: Office) -> None:  # noqa: F811
    """Reviewers whom Slack never names are asked about again by themselves: all other requests are counted once an
    hour, and reported.
    """
    await ask(office.db, rule())
    await ask(office.db, rule(approvers=("channel",)))
    office.slack.workspace.channels["C0REVIEW"].members.clear()
    office.open_admin_channel()
    fault = office.slack.faults.error("usergroups.users.list", "missing_scope", times=None)
    check = office.drains[0].reviewers
    check._again = 0.01
    check.look_if_due()
    await office.slack.wait_for(lambda: office.slack.calls_of("conversations.members"))
    office.directory.forget_everything()
    check.look_if_due()
    await office.slack.wait_for(lambda: fault.hits >= 4)
    assert len(office.slack.calls_of("conversations.members")) == 1
    assert len(await office.operator_messages()) == 1
    await check.stop()


async def test_a_drawn_card_is_not_read_again(office: Office) -> None:  # noqa: F811
    """Counting the reviewers of a card that is drawn reads nothing that drawing it has not read."""
    for admin in (False, True):
        if admin:
            office.open_admin_channel()
        asked = await ask(office.db, rule())
        await office.tell_all()
        await office.touch(asked)
        with counting() as counted:
            await office.tell()
            await office.drains[0].reviewers.finish()
        assert len(counted.statements) == 3


async def test_a_large_group_is_said_to_be_uncounted(office: Office) -> None:  # noqa: F811
    """If the first twenty of a group cannot approve, operators read that it was not counted, instead of nothing."""
    office.open_admin_channel()
    people = [f"U1{number:03d}" for number in range(30)]
    for user in people:
        office.slack.workspace.add_member(user, user.lower(), is_restricted=True)
    office.slack.workspace.change_usergroup("S0FINANCE", people)
    await ask(office.db, rule())
    [line] = await reports(office)
    assert "Reviewers not counted" in line
    assert len(office.slack.calls_of("users.info")) <= 21  # and the requester's name
