"""Agno, over HTTP to a scripted model, against a running Signoff; its runs are kept in its own database."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import socket
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from agno.agent import Agent
from agno.db.sqlite import SqliteDb
from agno.models.openai import OpenAIChat
from agno.os import AgentOS
from agno.run.base import RunStatus
from agno.run.cancel import acleanup_run
from agno.tools import tool
from agno.tools.function import Function
from agno.tools.user_control_flow import UserControlFlowTools
from agno.tools.user_feedback import UserFeedbackTools

from signoff.client import AsyncApprovalClient
from signoff.client.operations import WaitLimit
from signoff.errors import AlreadyClaimed, Unreachable
from signoff.integrations.agno import AgnoApprovals
from signoff.integrations.agno_paused_runs import store_cancelled
from signoff_demo.sandbox.model import ScriptedCall, ScriptedTurn
from tests.integration.integrations.conftest import ROOT, Desk, until
from tests.integration.web.line import a_line
from tests.integration.web.test_client import http_answer

EXAMPLE = ROOT / "examples" / "agno_confirmation.py"
FIFTY = {"table_name": "users", "count": 50}
TASK = "delete_records table_name=users count=50"


class Cleaner:
    """An Agno agent, rebuilt in each process; `deleted` records its tool's work."""

    def __init__(self, actors: Desk, path: Path) -> None:
        self.deleted: list[tuple[str, int]] = []
        self.client = AsyncApprovalClient(actors.url, actors.key)
        self.approvals = AgnoApprovals(self.client, timeout=60)
        self.agent = Agent(
            id="cleaner",
            model=OpenAIChat(
                id="signoff-scripted", base_url=actors.site.house.model.base_url, api_key="sk-scripted"
            ),
            tools=[self.approvals.guard(self.tool("delete_records")), self.tool("wipe_records")],
            db=SqliteDb(db_file=str(path)),
            telemetry=False,
        )

    def tool(self, name: str) -> Function:
        """A tool; the second one needs confirmation as Agno has it, and nobody guards it."""

        @tool(name=name, requires_confirmation=True)
        def delete_records(table_name: str, count: int) -> str:
            """Delete records."""
            self.deleted.append((table_name, count))
            return f"Deleted {count} records from {table_name}"

        return delete_records

    def begin(self, task: str = TASK, key: str = "run-1") -> asyncio.Task[Any]:
        """A run of its own, which waits for people."""
        return asyncio.create_task(self.approvals.run(self.agent, task, key=key))


def copy_database(source: Path, copy: Path) -> None:
    """With what is only in SQLite's write-ahead log so far."""
    with closing(sqlite3.connect(source)) as stored, closing(sqlite3.connect(copy)) as other:
        stored.backup(other)


@pytest.fixture
async def cleaner(actors: Desk, tmp_path: Path) -> AsyncIterator[Cleaner]:
    """The agent."""
    agent = Cleaner(actors, tmp_path / "runs.db")
    yield agent
    await agent.client.close()
    await acleanup_run("run-1")


async def test_a_run_that_has_ended_is_not_begun_again(actors: Desk, cleaner: Cleaner) -> None:
    """The same key returns the run as it ended."""
    running = cleaner.begin()
    await actors.decide(await actors.asked())
    run = await running
    assert (run.status, run.tools[0].confirmed) == (RunStatus.completed, True)
    assert (await cleaner.begin()).run_id == run.run_id == "run-1"
    assert cleaner.deleted == [("users", 50)]


async def test_silence_is_no_consent(actors: Desk, cleaner: Cleaner) -> None:
    """Undecided, the run stays paused; expired, its call is rejected; confirmed elsewhere, the tool does not run."""
    cleaner.approvals._timeout = WaitLimit.of(0)
    with pytest.raises(TimeoutError):
        await cleaner.begin()
    assert await cleaner.approvals.resume_paused(cleaner.agent) == []
    assert await actors.statuses() == ["waiting"]
    await actors.expire()
    found: Any = await until(lambda: cleaner.approvals.resume_paused(cleaner.agent), 60)
    assert "expired" in found[0].content

    alone: Any = await cleaner.agent.arun(TASK, session_id="s")
    alone.requirements[0].confirm()
    ended: Any = await cleaner.agent.acontinue_run(run_response=alone)
    assert "was not confirmed through Signoff" in ended.content
    assert not cleaner.deleted


INVITE = {"subject": "Lunch"}
MEAL = {"field_name": "meal", "field_type": "str", "field_description": "What to order"}
TASTE = {"question": "Which taste?", "header": "Taste", "options": [{"label": "sweet"}, {"label": "salty"}]}
GUESTS = {"guests": 4, "day": "2027-01-31", "room": "north"}


class Host(Cleaner):
    """Its tools want a person's input."""

    def __init__(self, actors: Desk, path: Path, *, asks: bool = True) -> None:
        super().__init__(actors, path)
        self.invited: list[tuple[Any, ...]] = []
        self.approvals = AgnoApprovals(self.client, timeout=60, ask_for_input=asks)

        @tool(requires_user_input=True, user_input_fields=["guests", "day", "room", "note"])
        def invite(
            subject: str, guests: int, day: date, room: Literal["north", "south"], note: str | None
        ) -> str:
            """Invite guests.

            Args:
                guests: How many
            """
            self.invited.append((subject, guests, day, room, note))
            return f"Invited {guests} to {room}"

        @tool(requires_user_input=True, user_input_fields=["note"])
        def remind(note: str | None = None) -> str:
            """Remind guests."""
            self.invited.append((note,))
            return "Reminded"

        @tool(requires_user_input=True, user_input_fields=["seats"])
        def seat(seats: dict[str, int]) -> str:
            """Seat guests."""
            raise AssertionError(seats)

        self.agent.tools = [
            self.approvals.guard(self.tool("delete_records")),
            invite,
            remind,
            seat,
            UserControlFlowTools(),
            UserFeedbackTools(),
        ]


async def host_of(actors: Desk, path: Path, *calls: tuple[str, dict[str, Any]], **more: Any) -> Host:
    actors.site.house.model.script(list(calls))
    return Host(actors, path, **more)


async def told(actors: Desk) -> str:
    """What the model read last."""
    return json.dumps(actors.site.house.model.requests[-1]["messages"], ensure_ascii=False)


async def test_people_fill_in_what_a_run_waits_for(actors: Desk, tmp_path: Path) -> None:
    """A tool's input has its types, beside an action to approve; another process takes the run up where nobody has
    answered yet, and the tool runs once.
    """
    host = await host_of(actors, tmp_path / "runs.db", ("invite", INVITE), ("delete_records", FIFTY))
    host.approvals._timeout = WaitLimit.of(0)
    with pytest.raises(TimeoutError):
        await host.begin("Lunch for all")
    asked = {each.action: each for each in await host.client.pending()}
    schema = asked["external"].raw["answer_schema"]
    assert schema["properties"]["guests"] == {"description": "How many", "title": "Guests", "type": "integer"}
    assert schema["properties"]["room"]["enum"] == ["north", "south"]
    assert schema["required"] == ["guests", "day", "room"]
    assert "Lunch" in asked["external"].description
    await actors.decide(asked["external"].id, "answered", answer=GUESTS)
    await actors.decide(asked["delete_records"].id)
    later = Host(actors, tmp_path / "runs.db")
    run = await later.begin("Lunch for all")
    assert run.status is RunStatus.completed
    assert later.invited == [("Lunch", 4, date(2027, 1, 31), "north", None)]
    assert (later.deleted, host.invited) == ([("users", 50)], [])
    assert sorted(await actors.statuses()) == ["answered", "approved"]
    assert "Invited 4 to north" in await told(actors)
    for each in (host, later):
        await each.client.close()


async def test_a_models_own_questions(actors: Desk, tmp_path: Path) -> None:
    """`get_user_input` and `ask_user` of Agno's toolkits are forms, whose answers the model reads."""
    host = await host_of(
        actors,
        tmp_path / "runs.db",
        ("get_user_input", {"user_input_fields": [MEAL]}),
        ("ask_user", {"questions": [TASTE, TASTE | {"question": "Which more?", "multi_select": True}]}),
    )
    running = host.begin("Lunch for all")
    await actors.asked(2)
    for each in await host.client.pending():
        answer: dict[str, Any] = {"Which taste?": "salty", "Which more?": ["sweet", "salty"]}
        answer = {"meal": "soup"} if "meal" in each.raw["answer_schema"]["properties"] else answer
        await actors.decide(each.id, "answered", answer=answer)
    assert (await running).status is RunStatus.completed
    words = await told(actors)
    assert all(each in words for each in ("soup", "Which taste?", "salty", "sweet")), words
    await host.client.close()


async def test_input_that_people_do_not_give(actors: Desk, tmp_path: Path) -> None:
    """A rejection ends the call, which does not run, and the model reads why; so does what no form has, unasked."""
    host = await host_of(actors, tmp_path / "runs.db", ("remind", {}), ("seat", {}))
    running = host.begin("Lunch for all")
    await actors.decide(await actors.asked(), "rejected", reason="Look it up")
    assert (await running).status is RunStatus.completed
    assert host.invited == []
    words = await told(actors)
    assert "Look it up" in words
    assert "Nobody was asked: " in words
    assert "seats: object cannot be asked for in a form" in words
    assert await actors.statuses() == ["rejected"]
    await host.client.close()


async def test_input_is_asked_for_only_where_the_program_says_so(actors: Desk, tmp_path: Path) -> None:
    """Otherwise the run is returned, and the program fills it in."""
    host = await host_of(actors, tmp_path / "runs.db", ("invite", INVITE), asks=False)
    run = await host.begin("Lunch for all")
    assert run.is_paused
    assert await actors.statuses() == []
    await host.client.close()


@pytest.mark.parametrize("stores", [True, False], ids=["all messages stored", "no tool messages"])
async def test_another_life_of_the_run_repeats_nothing(
    actors: Desk, cleaner: Cleaner, tmp_path: Path, stores: bool
) -> None:
    """What an earlier life did is answered with what came of it; what it began and never told is not begun again."""
    cleaner.agent.store_tool_messages = stores
    running = cleaner.begin()
    request = await actors.asked()
    copy_database(tmp_path / "runs.db", tmp_path / "paused.db")  # as a kill right after the effect leaves it
    await actors.decide(request)
    await running
    again = Cleaner(actors, tmp_path / "paused.db")
    again.agent.store_tool_messages = stores
    assert "Deleted 50 records from users" in (await again.begin()).content

    running = again.begin(key="run-2")
    request = await actors.asked(2)
    running.cancel()
    await actors.decide(request)
    await again.client.claim(request)
    with pytest.raises(AlreadyClaimed, match="its outcome is not known yet"):
        await again.begin(key="run-2")
    assert again.deleted == []
    await actors.settle("retry")
    assert "Deleted 50 records" in (await again.begin(key="run-2")).content
    assert (cleaner.deleted, again.deleted) == ([("users", 50)], [("users", 50)])
    await again.client.close()


async def test_a_run_that_was_sent_back_is_asked_about_anew(
    actors: Desk, cleaner: Cleaner, tmp_path: Path
) -> None:
    """A run that AgentOS' `/continue` sends back to its first message makes the same call in the same turn, under the
    same id: it gets no earlier result. Killed after that, it begins again, and finds the answer to this call.
    """
    model = actors.site.house.model
    five, seven = (
        ScriptedTurn(None, (ScriptedCall("delete_records", FIFTY | {"count": count}, f"call_{count}"),))
        for count in (5, 7)
    )
    model.script(five, seven, five, "done", "done")
    cleaner.approvals._timeout = WaitLimit.of(0)
    with pytest.raises(TimeoutError):
        await cleaner.begin()
    await actors.decide(await actors.asked())
    with pytest.raises(TimeoutError):
        await cleaner.begin()
    assert cleaner.deleted == [("users", 5)]
    back = {"continue_from": "last_user", "session_id": "run-1", "stream": "false"}
    async with agent_os(cleaner) as client:
        answer = await client.post("/agents/cleaner/runs/run-1/continue", data=back)
    assert (answer.status_code, answer.json()["status"]) == (200, "PAUSED"), answer.text
    assert await cleaner.approvals.resume_paused(cleaner.agent) == []
    assert await actors.statuses() == ["approved", "cancelled", "waiting"]
    assert cleaner.deleted == [("users", 5)]

    copy_database(tmp_path / "runs.db", tmp_path / "paused.db")  # as a kill right after the effect leaves it
    await actors.decide(await actors.asked(3))
    await cleaner.begin()
    assert cleaner.deleted == [("users", 5), ("users", 5)]
    again = Cleaner(actors, tmp_path / "paused.db")
    run = await again.begin()
    assert [each.content for each in run.messages if each.role == "tool"] == ["Deleted 5 records from users"]
    assert again.deleted == []
    assert await actors.statuses() == ["approved", "cancelled", "approved"]
    await again.client.close()


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("end", ["confirmed", "refused", "cancelled"])
async def test_a_card_closes_with_the_run_that_asked(
    actors: Desk, cleaner: Cleaner, tmp_path: Path, end: str, known: bool
) -> None:
    """A run that goes on without Signoff's answer, or is cancelled, withdraws its question, also one that an earlier
    process asked; a run that still waits keeps its own.
    """
    cleaner.approvals._timeout = WaitLimit.of(0)
    for key in ("run-1", "run-2"):
        with pytest.raises(TimeoutError):
            await cleaner.begin(key=key)
    assert await cleaner.approvals.resume_paused(cleaner.agent) == []
    run: Any = cleaner.agent.db.get_run("run-1")  # type: ignore[union-attr]
    if end == "cancelled":
        run.status = RunStatus.cancelled
        cleaner.agent.db.upsert_run(run, run.session_id)  # type: ignore[union-attr]
    else:
        requirement = run.requirements[0]
        requirement.confirm() if end == "confirmed" else requirement.reject("Not now")
        await cleaner.agent.acontinue_run(
            run_id="run-1", session_id="run-1", requirements=run.requirements, stream=False
        )
    later = cleaner if known else Cleaner(actors, tmp_path / "runs.db")
    later.agent.set_id()
    assert await later.approvals.resume_paused(later.agent) == []
    assert await actors.statuses() == ["cancelled", "waiting"]
    assert not cleaner.deleted


async def test_a_card_closes_with_the_run_that_agent_os_continues(actors: Desk, cleaner: Cleaner) -> None:
    """AgentOS' own route for continuing a run withdraws the run's question, and no other."""
    cleaner.approvals._timeout = WaitLimit.of(0)
    for key in ("run-1", "run-2"):
        with pytest.raises(TimeoutError):
            await cleaner.begin(key=key)
    assert await cleaner.approvals.resume_paused(cleaner.agent) == []
    run: Any = cleaner.agent.db.get_run("run-1")  # type: ignore[union-attr]
    tools = [each.to_dict() | {"confirmed": False, "confirmation_note": "Not now"} for each in run.tools]
    fields = {"tools": json.dumps(tools), "session_id": run.session_id, "stream": "false"}
    async with agent_os(cleaner) as client:
        answer = await client.post("/agents/cleaner/runs/run-1/continue", data=fields)
        assert answer.status_code == 200, answer.text
    assert await cleaner.approvals.resume_paused(cleaner.agent) == []
    assert await actors.statuses() == ["cancelled", "waiting"]
    assert not cleaner.deleted


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_run_that_agent_os_cancelled_runs_nothing(
    actors: Desk, cleaner: Cleaner, tmp_path: Path, restarted: bool
) -> None:
    """AgentOS' `/cancel` of a paused run closes its card at the next look, no other, and is stored: another process
    runs nothing either, and closes what was left open.
    """
    cleaner.approvals._timeout = WaitLimit.of(0)
    for key in ("run-1", "run-2"):
        with pytest.raises(TimeoutError):
            await cleaner.begin(key=key)
    await cancel(cleaner)
    db: Any = cleaner.agent.db
    if restarted:  # it was stored, and the process died before the service answered
        await store_cancelled(cleaner.agent, db.get_run("run-1"))
        await acleanup_run("run-1")
        looking = Cleaner(actors, tmp_path / "runs.db")
    else:
        looking = cleaner
    assert await looking.approvals.resume_paused(looking.agent) == []
    assert await actors.statuses() == ["cancelled", "waiting"]
    assert db.get_run("run-1").status is RunStatus.cancelled
    later = Cleaner(actors, tmp_path / "runs.db")
    assert (await later.begin()).status is RunStatus.cancelled
    session = {"session_id": "run-1", "stream": "false"}
    async with agent_os(later) as client:
        answer = await client.post("/agents/cleaner/runs/run-1/continue", data=session)
    assert answer.status_code == 409, answer.text
    assert cleaner.deleted == looking.deleted == later.deleted == []
    for each in {later, looking} - {cleaner}:
        await each.client.close()


@pytest.mark.parametrize("stored", [False, True])
async def test_an_approval_of_a_cancelled_run_starts_nothing(
    actors: Desk, cleaner: Cleaner, stored: bool
) -> None:
    """Who cancels while people are asked has cancelled it, whether Agno's memory says so or its database."""
    running = cleaner.begin()
    request = await actors.asked()
    if stored:
        db: Any = cleaner.agent.db
        await store_cancelled(cleaner.agent, db.get_run("run-1"))
    else:
        await cancel(cleaner)
    await actors.decide(request)
    assert (await running).status is RunStatus.cancelled
    assert (await cleaner.begin()).status is RunStatus.cancelled
    assert not cleaner.deleted
    assert await actors.executions() == []


async def test_a_cancelled_run_closes_without_another_look(
    actors: Desk, cleaner: Cleaner, tmp_path: Path
) -> None:
    """A program that only calls `run` withdraws the question of a run that is cancelled."""
    cleaner.approvals._timeout = WaitLimit.of(0)
    with pytest.raises(TimeoutError):
        await cleaner.begin()
    db: Any = cleaner.agent.db
    await store_cancelled(cleaner.agent, db.get_run("run-1"))
    later = Cleaner(actors, tmp_path / "runs.db")
    assert (await later.begin()).status is RunStatus.cancelled
    assert await actors.statuses() == ["cancelled"]
    await later.client.close()


@pytest.mark.parametrize("answer", [None, "503 Service Unavailable"])
async def test_a_run_cancelled_during_its_claim_runs_nothing(
    actors: Desk, cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch, answer: str | None
) -> None:
    """The guard looks again after the claim: what was not begun is reported, and a claim that fails does not make Agno
    forget the cancellation.
    """
    claim = cleaner.client.claim

    async def slow(*args: Any, **options: Any) -> Any:
        await cancel(cleaner)
        if answer is not None:
            raise Unreachable(answer)
        return await claim(*args, **options)

    monkeypatch.setattr(cleaner.client, "claim", slow)
    running = cleaner.begin()
    await actors.decide(await actors.asked())
    assert (await running).status is RunStatus.cancelled
    monkeypatch.undo()
    assert (await cleaner.begin()).status is RunStatus.cancelled
    assert not cleaner.deleted
    assert await actors.executions() == ([] if answer else ["failed"])


def agent_os(cleaner: Cleaner) -> httpx.AsyncClient:
    app = AgentOS(agents=[cleaner.agent], telemetry=False).get_app()
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://agent-os")


async def cancel(cleaner: Cleaner, run: str = "run-1") -> None:
    async with agent_os(cleaner) as client:
        answer = await client.post(f"/agents/cleaner/runs/{run}/cancel")
    assert answer.status_code == 200, answer.text


async def test_a_question_is_withdrawn_after_the_trouble(
    actors: Desk, cleaner: Cleaner, tmp_path: Path
) -> None:
    """A refusal that says nothing about the question leaves it for the next look; one that was never asked holds up
    none.
    """
    assert actors.site.service.port
    cleaner.approvals._timeout = WaitLimit.of(0)
    with pytest.raises(TimeoutError):
        await cleaner.begin()
    cleaner.approvals._open._left.add("never:asked")
    assert await cleaner.approvals.resume_paused(cleaner.agent) == []
    assert not cleaner.approvals._open._left
    async with (
        a_line(actors.site.service.port) as line,
        AsyncApprovalClient(line.url, actors.key) as cleaner.approvals._open._client,
    ):
        db: Any = cleaner.agent.db
        run = db.get_run("run-1")
        run.status = RunStatus.cancelled
        db.upsert_run(run, run.session_id)
        for status in ("401 Unauthorized", "403 Forbidden", "418 I'm a teapot"):
            line.says = http_answer(status)
            assert await cleaner.approvals.resume_paused(cleaner.agent) == []
        assert await actors.statuses() == ["waiting"]
        line.says = None
        assert await cleaner.approvals.resume_paused(cleaner.agent) == []
        assert await actors.statuses() == ["cancelled"]


async def test_a_look_costs_as_much_as_the_agent_has_paused(
    actors: Desk, cleaner: Cleaner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Questions of other programs and agents under the same key cost one look-up each, at the first look; what is
    paused is read once a look, and a run that was deleted never again.
    """
    for number in range(3):
        await cleaner.client.submit("delete_records", FIFTY, key=f"program-{number}:1")
    other = Cleaner(actors, tmp_path / "runs.db")
    other.agent.id = "other"
    for each, key in ((cleaner, "run-1"), (other, "run-2")):
        each.approvals._timeout = WaitLimit.of(0)
        with pytest.raises(TimeoutError):
            await each.begin(key=key)
    await other.client.close()
    later = Cleaner(actors, tmp_path / "runs.db")
    db: Any = later.agent.db
    read: list[str] = []
    look_up = db.get_run

    def get_run(run_id: str) -> Any:
        read.append(run_id)
        return look_up(run_id)

    monkeypatch.setattr(db, "get_run", get_run)

    async def reads() -> list[str]:
        read.clear()
        assert await later.approvals.resume_paused(later.agent) == []
        return sorted(read)

    assert await reads() == ["program-0", "program-1", "program-2", "run-1", "run-2"]
    assert await reads() == ["run-1"]
    assert db.delete_session("run-1")
    assert (await reads(), await reads()) == (["run-1"], [])
    await later.client.close()
    assert await actors.statuses() == ["waiting"] * 5


@pytest.fixture
def port() -> Iterator[int]:
    """A port that only a server may take: with SO_REUSEADDR it may listen although we hold the port."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


async def test_agent_os_survives_kill_9(
    actors: Desk, framework_url: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while its run is paused, the example's AgentOS continues in another process with the decision."""
    settings = {
        "AGNO_DB_URL": framework_url.replace("postgresql://", "postgresql+psycopg://"),
        "OPENAI_BASE_URL": actors.site.house.model.base_url,
        "OPENAI_API_KEY": "sk-scripted",
        "AGENT_OS_PORT": str(port),
    }
    first = await actors.run(EXAMPLE, **settings)
    fields = {
        "message": "Delete 50 old records from the users table",
        "user_id": "test_user",
        "session_id": "test_session",
        "stream": "false",
    }
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:

        async def started() -> Any:
            try:
                return await client.post(
                    "/agents/data_manager/runs", files={name: (None, each) for name, each in fields.items()}
                )
            except httpx.ConnectError:
                assert first.returncode is None, (await first.communicate())[1].decode()
                return None

        paused = (await until(started, 60)).json()
    assert (paused["status"], paused["tools"][0]["tool_args"]) == ("PAUSED", FIFTY), paused
    await actors.asked()
    first.kill()
    await first.wait()
    await actors.click()

    for name, value in {**settings, "SIGNOFF_URL": actors.url, "SIGNOFF_KEY": actors.key}.items():
        monkeypatch.setenv(name, value)
    spec = importlib.util.spec_from_file_location("agno_confirmation", EXAMPLE)
    assert spec
    assert spec.loader
    second: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(second)

    async def done() -> Any:
        run = await asyncio.to_thread(second.db.get_run, paused["run_id"])
        return run if run.status is RunStatus.completed else None

    async with second.approvals.answering(second.agent, every=0.2):
        run = await until(done, 60)
    assert "Deleted 50 records from users" in run.content
    assert await actors.statuses() == ["approved"]
    assert await actors.executions() == ["succeeded"]
    await second.approvals._client.close()
