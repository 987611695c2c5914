"""Members who call another workspace of the organisation their home: one person by every way in."""

from __future__ import annotations

from typing import Any

import pytest

from agent.domain.errors import Refusal, sentence
from signoff.values import Person
from slackbot.cards import ACTION_APPROVE, ACTION_REJECT
from tests.integration.asking import TEAM
from tests.integration.listeners.conftest import House
from tests.patience import promised

SECOND = "T0SECOND"
HANA = Person(TEAM, "U0HANA")
REASON = "signoff:reason/signoff:reason_input"


def hana_joins(house: House) -> None:
    """A member of this workspace and a reviewer, at home in another one."""
    workspace = house.slack.workspace
    workspace.add_member("U0HANA", "hana", team_id=SECOND, workspaces=(SECOND, TEAM))
    workspace.usergroups["S0FINANCE"].users.append("U0HANA")
    for channel in workspace.channels.values():
        channel.members.add("U0HANA")


async def test_runs_belong_to_one_person_however_they_start(house: House) -> None:
    """A command, a mention and a message to the app, whatever workspace Slack names: the requester is one person."""
    hana_joins(house)
    hana = house.slack.person("U0HANA")
    assert (await hana.command("/agent", "run refunds order 1", "C0AGENTS")).acked
    hana.mention("C0AGENTS", "run refunds order 2")
    hana.direct("run refunds order 3")
    form = house.slack.interactions.command(
        hana.member,
        house.slack.workspace.channels["C0AGENTS"],
        "/agent",
        "run refunds order 4",
        "http://127.0.0.1:1/",
    )
    assert (await house.slack.deliveries.command(form | {"team_id": SECOND})).acked

    runs = "SELECT requester_team_id, requester_user_id FROM agent_run"
    await house.slack.wait_for(lambda: len(house.rows(runs)) == 4)
    assert set(house.rows(runs)) == {(TEAM, "U0HANA")}


async def test_a_reply_is_of_the_same_person(house: House) -> None:
    """What she writes in a run's thread reaches the run under the id under which she votes."""
    hana_joins(house)
    await house.slack.person("U0ADA").command("/agent", "run refunds order 7", "C0AGENTS")
    root = await house.client.chat_postMessage(channel="C0AGENTS", text="a run")
    house.owner.execute("UPDATE agent_run SET thread_ts = %s", (root["ts"],))
    house.slack.person("U0HANA").say("C0AGENTS", "only order 7", thread_ts=str(root["ts"]))
    said = "SELECT author_team_id, author_user_id FROM run_message WHERE text = 'only order 7'"
    await house.slack.wait_for(lambda: house.rows(said))
    assert house.rows(said) == [(TEAM, "U0HANA")]


async def test_what_she_asked_for_she_does_not_approve(house: House) -> None:
    """A run that she started by command has questions that her click, with the other workspace's id, cannot approve."""
    hana_joins(house)
    asked, card = await house.asked(requester=HANA)
    assert (await house.slack.person("U0HANA").click(card, ACTION_APPROVE)).acked
    await house.ephemeral("U0HANA", sentence(Refusal.SELF_REVIEW))
    assert await house.status(asked.request_id) == "waiting"


async def test_home_and_its_buttons_are_hers(house: House) -> None:
    """App Home lists what waits for her, and its button counts."""
    hana_joins(house)
    asked, _ = await house.asked()
    hana = house.slack.person("U0HANA")
    hana.open_home()
    await house.slack.wait_for(lambda: str(asked.request_id) in str(house.slack.home("U0HANA")))
    assert (await hana.click("home", ACTION_APPROVE)).acked
    assert await house.status(asked.request_id) == "approved"
    assert house.rows("SELECT team_id, user_id FROM vote") == [(TEAM, "U0HANA")]


@pytest.mark.parametrize(
    ("switch", "refusal"),
    [
        (lambda slack: slack.faults.error("users.info", "internal_error", times=None), Refusal.LOOKUP_FAILED),
        (lambda slack: slack.faults.ratelimited("users.info", times=None), Refusal.RATE_LIMITED_LOOKUP),
    ],
)
async def test_nobody_is_guessed(house: House, switch: Any, refusal: Refusal) -> None:
    """While Slack does not confirm which workspaces are hers, each act is answered with that and changes nothing."""
    hana_joins(house)
    asked, card = await house.asked()
    hana = house.slack.person("U0HANA")
    assert (await hana.click(card, ACTION_REJECT)).acked
    form = await house.modal("U0HANA", "Reject")
    house.ctx.directory.forget("U0HANA")
    switch(house.slack)
    words = sentence(refusal)
    submitted = await hana.submit(form, {REASON: "no"})
    assert words in str(submitted.response)
    assert (await hana.click(card, ACTION_APPROVE)).acked
    await house.ephemeral("U0HANA", words)
    form = house.slack.interactions.command(
        hana.member,
        house.slack.workspace.channels["C0AGENTS"],
        "/agent",
        "run refunds go",
        "http://127.0.0.1:1/",
    )
    answered = await house.slack.deliveries.command(form | {"team_id": SECOND})
    assert words in str(answered.payload)
    assert await house.status(asked.request_id) == "waiting"
    assert house.rows("SELECT count(*) FROM vote") == [(0,)]


@pytest.mark.budgets
async def test_her_look_up_is_part_of_the_budget(http_house: House) -> None:
    """Slack is slow to say which workspaces are hers, and the database is stuck: each act is answered in three
    seconds all the same.
    """
    house = http_house
    hana_joins(house)
    _, card = await house.asked()
    hana = house.slack.person("U0HANA")
    assert (await hana.click(card, ACTION_REJECT)).acked
    form = await house.modal("U0HANA", "Reject")
    command = house.slack.interactions.command(
        hana.member, house.slack.workspace.channels["C0AGENTS"], "/approvals", "", "http://127.0.0.1:1/"
    )
    for act in (
        lambda: hana.click(card, ACTION_APPROVE),
        lambda: hana.submit(form, {REASON: "no"}),
        lambda: house.slack.deliveries.command(command | {"team_id": SECOND}),
    ):
        house.ctx.directory.forget("U0HANA")
        house.slack.faults.slow("users.info", 0.7)
        with house.owner.transaction():
            house.owner.execute("LOCK TABLE approval_request IN ACCESS EXCLUSIVE MODE")
            answer = await act()
        assert answer.elapsed < min(promised(2.7), 2.9)
        house.slack.faults.clear()
    assert house.rows("SELECT count(*) FROM vote") == [(0,)]
