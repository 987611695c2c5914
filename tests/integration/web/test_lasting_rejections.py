"""A rejection that holds for programs: the very same action of the agent is refused, whatever it is called."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.integration.asking import column
from tests.integration.service.conftest import http_house  # noqa: F401
from tests.integration.web.conftest import LINUS, Street
from tests.integration.web.test_executors import claim, kind
from tests.integration.web.test_facts import billing, opened
from tests.integration.web.visiting import Porch, porch  # noqa: F401

POLICY = """
[defaults]
channel = "C0REVIEW"
approvers = ["S0FINANCE"]
rejected_holds = "24h"
"""


@pytest.fixture
def policy() -> str:
    return POLICY


async def test_a_rejected_action_is_refused_under_another_name(site: Street) -> None:
    """403 with the rejected request, on record as a denial; other arguments are asked."""
    program = await billing(site)
    asked = await opened(await program.ask("d-1", action="delete", arguments={"id": 7}))
    await (await site.reviewer()).decides(asked["id"], "rejected")
    refused = await program.ask("d-2", action="delete", arguments={"id": 7})
    assert refused.status_code == 403
    assert f"was recently rejected, see request {asked['id']}" in refused.json()["detail"]
    denied = "SELECT count(*) FROM audit_event WHERE event = 'review.denied'"
    assert await column(site.db, denied) == [1]
    assert (await opened(await program.ask("d-3", action="delete", arguments={"id": 8})))[
        "status"
    ] == "waiting"


@pytest.mark.parametrize("policy", [POLICY + 'rejected_again = "show"\n'])
async def test_a_rejected_action_is_asked_with_the_rejection(site: Street) -> None:
    """The card of the second question says who rejected it and why, with the link; so it does when facts change."""
    program = await billing(site)
    question = {"action": "delete", "arguments": {"id": 7}}
    asked = await opened(await program.ask("d-1", **question, facts={"rows": 1}))
    await site.house.card()
    await (await site.reviewer()).decides(asked["id"], "rejected", reason="not these")
    again = await opened(await program.ask("d-2", **question, facts={"rows": 1}))
    await site.house.says("recently rejected", "C0REVIEW")
    await (await site.reviewer(LINUS, "linus")).decides(again["id"])
    assert kind(await claim(program, "d-2", facts={"rows": 2})) == (409, "facts-changed")
    sql = "SELECT rejected_before::text FROM approval_request ORDER BY id"
    assert await column(site.db, sql) == [None, asked["id"], asked["id"]]


async def test_the_page_shows_the_rejection(porch: Porch) -> None:  # noqa: F811
    """The reader reaches the rejected request by a link."""
    first = await porch.asked(7)
    grace = await porch.visitor("U0GRACE")
    await grace.open(f"/inbox/requests/{first}")
    await grace.send(f"/inbox/requests/{first}/reject", {"revision": "1", "own": "not this one"})
    await grace.open(f"/inbox/requests/{await porch.asked(7, rejected_before=UUID(first))}")
    assert "The same action was recently rejected by " in grace.words
    assert "not this one" in grace.words
    assert f'href="/inbox/requests/{first}"' in grace.page
