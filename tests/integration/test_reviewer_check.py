"""Operators get a message when too few people can still approve a request."""

from __future__ import annotations

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


async def reports(office: Office) -> list[str]:  # noqa: F811
    """What operators have been told, once all cards are drawn and their reviewers counted."""
    await office.tell_all()
    await office.drains[0].reviewers.finish()
    return await office.operator_messages()


async def edit(office: Office, asked: Asked, person: Person, revision: int) -> None:  # noqa: F811
    standing = Standing(person, frozenset({person.user_id, "S0FINANCE"}))
    action = Action("process_refund", "1", {"order_id": 100 + revision})
    edited = Edit(
        asked.request_id, revision, standing, action, {"price": 9}, None, "Refund less", "slack_edit"
    )
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
