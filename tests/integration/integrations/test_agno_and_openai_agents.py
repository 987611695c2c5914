"""What guards of Agno and of the OpenAI Agents SDK promise alike, against a running Signoff."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.integrations import test_agno, test_openai_agents
from tests.integration.integrations.conftest import Desk
from tests.integration.integrations.test_agno import FIFTY


@pytest.fixture(params=[test_agno.Cleaner, test_openai_agents.Cleaner], ids=["agno", "openai"])
async def cleaner(request: pytest.FixtureRequest, actors: Desk, tmp_path: Path) -> AsyncIterator[Any]:
    """The agent of either framework."""
    agent = request.param(actors, tmp_path / "runs")
    yield agent
    await agent.client.close()


def said(run: Any) -> str:
    return str(run.content if hasattr(run, "content") else run.final_output)


async def test_what_people_decide_is_what_runs(actors: Desk, cleaner: Any) -> None:
    """A click lets the tool run; an edit changes what runs, and the model learns of it; an edit that does not fit runs
    nothing.
    """
    running = cleaner.begin()
    await actors.asked()
    assert not cleaner.deleted
    await actors.click()
    assert "Deleted 50 records from users" in said(await running)

    running = cleaner.begin(key="run-2")
    await actors.edit(await actors.asked(2), FIFTY | {"count": 3}, reason="Three will do")
    answer = said(await running)
    assert "Deleted 3 records" in answer
    assert "A reviewer changed the arguments" in answer
    assert "Three will do" in answer

    running = cleaner.begin(key="run-3")
    await actors.edit(await actors.asked(3), FIFTY | {"count": "many"})
    await running
    assert cleaner.deleted == [("users", 50), ("users", 3)]
    assert await actors.executions() == ["succeeded", "succeeded", "failed"]


async def test_a_refusal_reaches_the_model_with_its_reason(actors: Desk, cleaner: Any) -> None:
    """Of two calls one is rejected with a reason and one approved; a tool without a guard is refused unasked."""
    model = actors.site.house.model
    model.script(
        [("delete_records", FIFTY), ("delete_records", FIFTY | {"count": 7}), ("wipe_records", FIFTY)]
    )
    running = cleaner.begin("Tidy up")
    for number in (1, 2):
        request = await actors.asked(number)
        about = (await actors.grace.get(f"/pending/{request}")).json()["action"]["arguments"]
        if about["count"] == 7:
            await actors.decide(request, "rejected", reason="Keep those")
        else:
            await actors.decide(request)
    await running
    transcript = json.dumps(model.requests[-1]["messages"])
    assert cleaner.deleted == [("users", 50)]
    assert "rejected by U0GRACE: Keep those" in transcript
    assert "wipe_records did not run: it has no guard" in transcript
    assert sorted(await actors.statuses()) == ["approved", "rejected"]
