"""Agents on the pages: starting, cancelling, pausing and resuming, with the rights that Slack knows."""

from __future__ import annotations

import re

import pytest

from agent.usecases import runs
from agent.usecases.runs import NewRun
from tests.integration.service.conftest import http_house  # noqa: F401
from tests.integration.web.visiting import ADA, TEAM, Porch, porch  # noqa: F401


async def test_each_search_has_a_button(porch: Porch) -> None:  # noqa: F811
    """Who searches by touch or by voice can send the form of each page that has one."""
    reader = await porch.visitor("U0GRACE")
    for path in ("/inbox", "/inbox/history"):
        await reader.open(path)
        (form,) = re.findall(r'<form[^>]* role="search".*?</form>', reader.page, re.DOTALL)
        assert "<button" in form, path


async def test_an_agent_is_started_once(porch: Porch) -> None:  # noqa: F811
    """The form starts the agent on behalf of its sender; sent again it finds the same run; what is wrong comes back."""
    reader = await porch.visitor("U0GRACE")
    await reader.open("/inbox/runs")
    once = re.search(r'name="once" value="([^"]+)"', reader.page)
    assert once
    assert re.search(
        r'<select id="agent" name="agent" required>\s*<option value="">', reader.page
    )  # none is chosen
    form = {"agent": "data", "task": "delete <b>nothing</b>", "once": once[1]}
    for wrong, words in (
        ({"agent": "nobody"}, "choose an agent"),
        ({"agent": ""}, "choose an agent"),
        ({"task": " "}, "what the agent should do"),
    ):
        assert (await reader.send("/inbox/runs", form | wrong)).status_code == 422
        assert words in reader.words
        assert once[1] in reader.page
    assert (await reader.send("/inbox/runs", form | {"task": "x" * 8001})).status_code == 422
    assert "8,000" in reader.words
    assert await porch.house.column("SELECT count(*) FROM agent_run") == [0]
    first, second = await reader.send("/inbox/runs", form), await reader.send("/inbox/runs", form)
    (run_id,) = await porch.house.column("SELECT id::text FROM agent_run")
    assert first.headers["location"] == second.headers["location"] == f"/inbox/runs/{run_id}"
    asked = "SELECT requester_user_id || ' ' || requester_asserted || ' ' || task FROM agent_run"
    assert await porch.house.column(asked) == ["U0GRACE slack delete <b>nothing</b>"]
    await reader.open(f"/inbox/runs/{run_id}")
    assert "delete &lt;b&gt;nothing" in reader.page


async def test_a_run_is_cancelled_by_who_may(porch: Porch) -> None:  # noqa: F811
    """The requester, or a reviewer of what it asks, ends a run; others find no button and their form is refused."""
    workspace = porch.house.slack.workspace
    workspace.add_member("U0ZOE", "zoe")
    workspace.add_member("U0EVE", "eve")
    workspace.add_channel("C0AGENTS", "agents", ["U0ADA", "U0GRACE", "U0ZOE", workspace.bot.user_id])
    asked = await porch.asked(7)
    (run_id,) = await porch.house.column("SELECT id::text FROM agent_run")
    path = f"/inbox/runs/{run_id}"
    zoe, grace = await porch.visitor("U0ZOE"), await porch.visitor("U0GRACE")
    eve = await porch.visitor("U0EVE")
    await zoe.open(path)
    assert "Cancel the run" not in zoe.page
    assert (await zoe.send(f"{path}/cancel")).status_code == 403
    await eve.open("/inbox")
    assert (await eve.send(f"{path}/cancel")).status_code == 404
    assert await porch.house.column("SELECT status::text FROM agent_run") == ["pending_approval"]
    await grace.open(path)
    assert "Cancel the run" in grace.page
    assert (await grace.send(f"{path}/cancel")).headers["location"] == path
    assert await porch.house.column("SELECT status::text FROM agent_run") == ["cancelled"]
    await grace.open(f"/inbox/requests/{asked}")
    assert "Withdrawn" in grace.words
    await grace.open(path)
    assert "Cancel the run" not in grace.page


@pytest.mark.parametrize("agent", ["", "data"])
async def test_administrators_pause_and_resume(porch: Porch, agent: str) -> None:  # noqa: F811
    """An administrator stops an agent or all, everybody reads by whom and why; nobody else turns the switch."""
    workspace = porch.house.slack.workspace
    workspace.add_member("U0BOSS", "boss", is_admin=True)
    boss, grace = await porch.visitor("U0BOSS"), await porch.visitor("U0GRACE")
    going = await runs.start(
        porch.house.db, NewRun("data", "1", "count tables", "slack", ADA, "slack", TEAM, "C0AGENTS")
    )
    await grace.open("/inbox/runs")
    assert grace.badges == ["Working"]
    assert "Pause an agent" not in grace.page
    assert (await grace.send("/inbox/pause", {"agent": agent})).status_code == 403
    await boss.open("/inbox/runs")
    assert (await boss.send("/inbox/pause", {"agent": "nobody"})).status_code == 404
    assert await porch.house.column("SELECT scope FROM pause") == []
    await boss.open("/inbox/runs")
    assert (await boss.send("/inbox/pause", {"agent": agent, "reason": "An <i>audit</i>"})).status_code == 303
    assert await porch.house.column("SELECT scope FROM pause") == [agent or "*"]
    await grace.open("/inbox/runs")
    which = f"The agent {agent} is" if agent else "Every agent is"
    assert f"{which} paused by @boss, just now : An <i>audit</i>" in grace.words
    assert grace.badges == ["Paused"]
    await grace.open(f"/inbox/runs/{going.run_id}")
    assert grace.badges == ["Paused"]
    assert "Agent paused by @boss: nothing begins until it is resumed." in grace.words
    await grace.open("/inbox/runs")
    assert "/inbox/resume" not in grace.page
    assert (await grace.send("/inbox/resume", {"agent": agent})).status_code == 403
    await boss.open("/inbox/runs")
    assert (await boss.send("/inbox/resume", {"agent": agent})).status_code == 303
    assert await porch.house.column("SELECT scope FROM pause") == []
