"""A rejection that holds for programs: the very same action of the agent is refused, whatever it is called."""

from __future__ import annotations

import pytest

from tests.integration.asking import column
from tests.integration.web.conftest import Street
from tests.integration.web.test_facts import billing, opened

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
    assert f"was rejected lately, see request {asked['id']}" in refused.json()["detail"]
    denied = "SELECT count(*) FROM audit_event WHERE event = 'review.denied'"
    assert await column(site.db, denied) == [1]
    assert (await opened(await program.ask("d-3", action="delete", arguments={"id": 8})))[
        "status"
    ] == "waiting"
