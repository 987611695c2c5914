"""Checkpoints that deny, at the doors of programs and reviewers."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import pytest

from agent.domain.checkpoints import load
from agent.usecases import policy as policies
from signoff_demo.actors import choose
from slackbot.cards import ACTION_APPROVE
from tests.integration.asking import column
from tests.integration.web.conftest import GRACE, POLICY, Street, until
from tests.integration.web.test_executors import approved, claim, kind
from tests.integration.web.visiting import Porch

WORDS = "More than 3 records are deleted by the database's owner"
DENYING = f"""{POLICY}
[[checkpoint]]
checkpoint_id = "never-many"
action_pattern = "delete_*"
when = "args.count > 3"
verdict = "deny"
because = "{WORDS}."
"""


@pytest.fixture
def settings() -> dict[str, str]:
    return {"SIGNOFF_PUBLIC_URL": "http://localhost:8080"}


async def apply(site: Street, text: str) -> None:
    """The service has taken the policy up when this returns."""
    applied = await policies.apply(site.db, load(text, filename="policy"), by="cli:ada")
    program = await site.program()

    async def taken_up() -> bool:
        return f"epoch {applied.epoch}" in (await program.get("/readyz")).text

    await until(taken_up)


async def test_a_program_reads_the_operators_words(site: Street) -> None:
    """Nobody is asked, the answer has the reason and not the condition, and the log has the checkpoint and both."""
    await apply(site, DENYING)
    program = await site.program()
    for _ in range(2):
        denied = await program.ask()
        assert kind(denied) == (403, "denied")
        assert denied.json()["detail"] == f"Policy denies this action: {WORDS}."
    assert await column(site.db, "SELECT count(*) FROM approval_request") == [0]
    judged = "SELECT verdict || ' ' || checkpoint_id || ' ' || because FROM judgement"
    assert (
        await column(site.db, judged)
        == ['deny never-many checkpoint "never-many": when (args.count > 3) is true'] * 2
    )
    assert (await program.ask("r-2", arguments={"table_name": "customers", "count": 3})).status_code == 201


async def by_api(site: Street) -> str:
    answer = await (await site.reviewer()).decide("r-1")
    assert kind(answer) == (403, "denied-now")
    detail: str = answer.json()["detail"]
    return detail


async def by_click(site: Street) -> str:
    grace = site.house.slack.person(GRACE.user_id)
    await grace.click(await site.house.card(), ACTION_APPROVE)
    await site.house.slack.wait_for(lambda: bool(site.house.slack.ephemeral(GRACE.user_id)))
    return str(site.house.slack.ephemeral(GRACE.user_id))


async def by_page(site: Street) -> str:
    [asked] = await column(site.db, "SELECT id FROM approval_request")
    reader = await Porch(site.house, site.service).visitor(GRACE.user_id)
    await reader.open(f"/inbox/requests/{asked}")
    await reader.send(f"/inbox/requests/{asked}/approve", {"revision": "1"})
    return reader.words


@pytest.mark.parametrize("door", [by_api, by_click, by_page])
async def test_what_waits_can_be_rejected_and_not_approved(
    site: Street, door: Callable[[Street], Awaitable[str]]
) -> None:
    """An approval of what policy denies by now is refused with the reason and recorded; a rejection counts."""
    await (await site.program()).ask()
    await apply(site, DENYING)
    assert WORDS in await door(site)
    assert await column(
        site.db, "SELECT detail ->> 'refusal' FROM audit_event WHERE event = 'vote.refused'"
    ) == ["denied_now"]
    assert await column(site.db, "SELECT status::text FROM approval_request") == ["waiting"]
    await (await site.reviewer()).decides("r-1", "rejected")


async def edit_by_click(site: Street) -> str:
    grace = site.house.slack.person(GRACE.user_id)
    await choose(site.house.slack, GRACE.user_id, await site.house.card(), "signoff:edit")
    form = site.house.slack.views(GRACE.user_id)[-1]
    return str((await grace.submit(form, {"signoff:edit:0/signoff:field": "4"})).response)


async def edit_by_page(site: Street) -> str:
    [asked] = await column(site.db, "SELECT id FROM approval_request")
    reader = await Porch(site.house, site.service).visitor(GRACE.user_id)
    await reader.open(f"/inbox/requests/{asked}")
    fields = re.findall(r'name="there" value="([^"]+)"', reader.page)
    typed = dict(zip(fields, ("4", "customers"), strict=True))
    await reader.send(f"/inbox/requests/{asked}/edit", {"revision": "1", "there": fields, **typed})
    return reader.words


@pytest.mark.parametrize("door", [edit_by_click, edit_by_page])
async def test_an_edit_into_what_is_denied_is_refused_with_the_reason(
    site: Street, door: Callable[[Street], Awaitable[str]]
) -> None:
    """The form of the edit says why, and the request stays as it was."""
    await apply(site, DENYING)
    program = await site.program()
    await program.ask(arguments={"table_name": "customers", "count": 2})
    assert WORDS in await door(site)
    assert (await program.get("/pending/r-1")).json()["revision"] == 1


async def test_an_approval_stays_while_policy_denies_its_action(site: Street) -> None:
    """The claim is denied with the reason; once another policy allows it, the same approval is claimed."""
    program = await site.program()
    await approved(site, program)
    await apply(site, DENYING)
    refused = await claim(program)
    assert kind(refused) == (403, "denied")
    assert WORDS in refused.json()["detail"]
    assert (await program.get("/pending/r-1")).json()["status"] == "approved"
    await apply(site, POLICY)
    assert (await claim(program)).status_code == 200
