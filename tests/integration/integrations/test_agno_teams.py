"""An Agno team over HTTP to a scripted model: its own tools and those of its members wait for people."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agno.agent import Agent
from agno.db.sqlite import SqliteDb
from agno.models.openai import OpenAIChat
from agno.run.base import RunStatus
from agno.run.cancel import acancel_run, acleanup_run
from agno.team import Team
from agno.tools import tool

from agent.usecases import pause
from signoff.client import AsyncApprovalClient
from signoff.client.operations import WaitLimit
from signoff.errors import ApiError
from signoff.integrations.agno import AgnoApprovals
from tests.integration.integrations.conftest import Desk, until

FIFTY = {"table_name": "users", "count": 50}
ROOMY = {"table_name": "rooms", "count": 3}


class Crew:
    """A team whose member `cleaner` may delete records, rebuilt in each process; `deleted` records the tool's work."""

    def __init__(self, actors: Desk, path: Path, *, nested: bool = False, guarded: bool = True) -> None:
        self.model = actors.site.house.model
        self.deleted: list[tuple[str, int]] = []
        self.client = AsyncApprovalClient(actors.url, actors.key)
        self.approvals = AgnoApprovals(self.client, timeout=60)
        self.db = SqliteDb(db_file=str(path))
        own = self.delete_records()
        self.member = Agent(
            id="cleaner",
            name="cleaner",
            tools=[self.approvals.guard(own) if guarded else own],
            model=self.chat(),
            telemetry=False,
        )
        members: list[Any] = [self.member]
        if nested:
            members = [Team(id="inner", name="inner", members=members, model=self.chat(), telemetry=False)]
        self.team = Team(
            id="crew",
            name="crew",
            members=members,
            tools=[self.approvals.guard(self.delete_records())],
            model=self.chat(),
            db=self.db,
            telemetry=False,
        )

    def chat(self) -> OpenAIChat:
        return OpenAIChat(id="signoff-scripted", base_url=self.model.base_url, api_key="sk-scripted")

    def delete_records(self) -> Any:
        @tool(requires_confirmation=True)
        def delete_records(table_name: str, count: int) -> str:
            """Delete records."""
            self.deleted.append((table_name, count))
            return f"Deleted {count} records from {table_name}"

        return delete_records

    def begin(self, key: str = "run-1") -> asyncio.Task[Any]:
        return asyncio.create_task(self.approvals.run(self.team, "Tidy up", key=key))


def told(actors: Desk) -> str:
    return json.dumps([each["messages"] for each in actors.site.house.model.requests])


def delegate(member: str = "cleaner") -> list[tuple[str, Any]]:
    return [("delegate_task_to_member", {"member_id": member, "task": "Delete old users"})]


@pytest.fixture
async def crew(actors: Desk, tmp_path: Path) -> AsyncIterator[Crew]:
    made = Crew(actors, tmp_path / "runs.db")
    yield made
    await made.client.close()
    await acleanup_run("run-1")


@pytest.mark.parametrize("nested", [False, True])
async def test_the_tool_of_a_member_waits_for_people(actors: Desk, tmp_path: Path, nested: bool) -> None:
    """Of the calls of a team's member, one runs as it was edited and one is rejected with its reason; the team's own
    call is asked about, too.
    """
    crew = Crew(actors, tmp_path / "runs.db", nested=nested)
    inward = [delegate("inner")] if nested else []
    crew.model.script(
        *inward,
        delegate(),
        [("delete_records", FIFTY), ("delete_records", ROOMY)],
        "The member is done.",
        *(["The inner team is done."] if nested else []),
        [("delete_records", FIFTY | {"count": 7})],
        "All done.",
    )
    running = crew.begin()
    for number in (1, 2):
        request = await actors.asked(number)
        asked = (await actors.grace.get(f"/pending/{request}")).json()["action"]["arguments"]
        assert not crew.deleted
        if asked == ROOMY:
            await actors.decide(request, "rejected", reason="Keep the rooms")
        else:
            await actors.edit(request, FIFTY | {"count": 3})
    await actors.decide(await actors.asked(3))
    run = await running
    assert (run.status, run.content) == (RunStatus.completed, "All done.")
    assert crew.deleted == [("users", 3), ("users", 7)]
    assert "Keep the rooms" in told(actors)
    assert await actors.executions() == ["succeeded", "succeeded"]
    await crew.client.close()


async def test_a_team_that_waits_is_found_again(actors: Desk, crew: Crew, tmp_path: Path) -> None:
    """Another process answers the team's paused run, and asks nobody twice; the member's own run is its team's."""
    crew.model.script(delegate(), [("delete_records", FIFTY)], "The member is done.", "All done.")
    crew.approvals._timeout = WaitLimit.of(0)
    with pytest.raises(TimeoutError):
        await crew.begin()
    again = Crew(actors, tmp_path / "runs.db")
    again.member.db = again.db
    assert await again.approvals.resume_paused(again.team) == []
    await actors.decide(await actors.asked())

    async def ended() -> bool:
        assert await again.approvals.resume_paused(again.member) == []
        return bool(await again.approvals.resume_paused(again.team))

    await until(ended, 30)
    assert (crew.deleted, again.deleted) == ([], [("users", 50)])
    assert await actors.statuses() == ["approved"]
    assert (await again.begin()).content == "All done."
    await again.client.close()


async def test_a_team_does_not_go_on_without_what_was_approved(actors: Desk, crew: Crew) -> None:
    """An approved call that may not begin now leaves the team's run paused; continued later, it runs once."""
    crew.model.script(delegate(), [("delete_records", FIFTY)], "The member is done.", "All done.")
    running = crew.begin()
    request = await actors.asked()
    await pause.pause(actors.site.db, None, by="test")
    await actors.decide(request)
    with pytest.raises(ApiError, match="paused"):
        await running
    assert not crew.deleted
    await pause.resume(actors.site.db, None, by="test")
    assert (await crew.begin()).content == "All done."
    assert crew.deleted == [("users", 50)]


async def test_a_member_without_a_guard_is_refused(actors: Desk, tmp_path: Path) -> None:
    """A member's tool that nothing guards does not run, and nobody is asked; the guard of the team's tool of the same
    name is not taken for its own.
    """
    crew = Crew(actors, tmp_path / "runs.db", guarded=False)
    crew.model.script(delegate(), [("delete_records", FIFTY)], "The member is done.", "All done.")
    assert (await crew.begin()).content == "All done."
    assert "it has no guard" in told(actors)
    assert (crew.deleted, await actors.statuses()) == ([], [])
    await crew.client.close()


@pytest.mark.parametrize("whose", ["team", "member"])
async def test_a_cancelled_run_of_a_team_runs_nothing(actors: Desk, crew: Crew, whose: str) -> None:
    """A team's cancelled run ends, and a member's is rejected in a team that goes on: the card closes, nothing runs."""
    crew.model.script(delegate(), [("delete_records", FIFTY)], "The member is done.", "All done.")
    crew.approvals._timeout = WaitLimit.of(0)
    with pytest.raises(TimeoutError):
        await crew.begin()
    paused: Any = crew.db.get_run("run-1")
    await acancel_run("run-1" if whose == "team" else paused.requirements[0].member_run_id)
    resumed = await crew.approvals.resume_paused(crew.team)
    stored: Any = crew.db.get_run("run-1")
    assert [each.run_id for each in resumed] == (["run-1"] if whose == "member" else [])
    assert stored.status == (RunStatus.completed if whose == "member" else RunStatus.cancelled)
    assert await actors.statuses() == ["cancelled"]
    assert not crew.deleted


async def test_a_team_cancelled_after_its_claim_gives_it_back(
    actors: Desk, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A team's approvals are claimed before it continues: cancelled then, the attempt is reported as not begun."""
    crew.model.script(delegate(), [("delete_records", FIFTY)], "The member is done.", "All done.")
    claim = crew.client.claim

    async def slow(*args: Any, **options: Any) -> Any:
        await acancel_run("run-1")
        return await claim(*args, **options)

    monkeypatch.setattr(crew.client, "claim", slow)
    running = crew.begin()
    await actors.decide(await actors.asked())
    assert (await running).status is RunStatus.cancelled
    assert await actors.executions() == ["failed"]
    assert not crew.deleted
