"""`signoff demo` as people run it: the whole main job in processes of their own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from agent.database import embedded_server, migrations
from agent.database.address import Address
from agent.database.pools import Database
from agent.usecases import webhooks
from signoff_demo import guided_agents, guided_scenes, run_demo
from signoff_demo import model as models
from signoff_demo.actors import ADA
from signoff_demo.environment import DATABASE, _database, _hold_port, _sandbox, open_environment
from signoff_demo.guide import Guide, Scene, Step
from signoff_demo.guided_steps import order
from signoff_demo.rules import folder_policy, workspace_of_agents
from signoff_demo.sandbox import demo_workspace
from signoff_demo.sandbox.model import MODEL_NAME, ScriptedModel
from signoff_demo.workdir import claim_workdir
from slackbot.cli.project import write as write_starter
from tests.integration.web.receiver import LOOPBACK, a_receiver
from tests.warm_python import warm

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = {
    "SIGNOFF_ROLES": "nonsense",
    "SLACK_BOT_TOKEN": "not a token",
    "DATABASE_URL": "postgresql://nowhere",
}


class Demo:
    """`signoff demo` in a process and a folder of its own."""

    def __init__(self, folder: Path, *arguments: str, python: str = "", **environment: str) -> None:
        self.home = folder / "home"
        self.output = folder / "output.txt"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [python or warm(), "-m", "slackbot", "demo", "--port", "0", *arguments],
                cwd=folder,
                env=os.environ | {"PYTHONPATH": str(ROOT), "SIGNOFF_HOME": str(self.home)} | environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def said(self) -> str:
        return self.output.read_text()

    def wait_for(self, pattern: str, seconds: float = 90) -> re.Match[str]:
        """The first match of a pattern in the output."""
        deadline = time.monotonic() + seconds
        while (found := re.search(pattern, self.said())) is None:
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.05)
        return found


@pytest.fixture
def demos(scratch: Path) -> Iterator[list[Demo]]:
    """Put every started demo in here; what is left of it is ended."""
    started: list[Demo] = []
    yield started
    for demo in started:
        if demo.process.poll() is None:
            demo.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                demo.process.wait(30)


@pytest.fixture
def scratch(postgres: Any, server_files: Path) -> Path:
    """A folder that the embedded server's own user may pass, with an .env that would break everything.

    Its demo finds the files of a server, as it does the second time.
    """
    folder = Path(postgres.server.data_dir).parent / f"demo{os.urandom(4).hex()}"
    folder.mkdir(mode=0o755)
    (folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in HOSTILE.items()))
    (folder / "home" / "demo").mkdir(parents=True)
    subprocess.run(["cp", "-a", server_files, folder / "home" / "demo" / "postgres"], check=True)
    return folder


def test_the_demo_plays_the_main_job_by_itself(scratch: Path, demos: list[Demo]) -> None:
    """Every scene of the guide is ticked by its own buttons, whatever the caller's settings; evidence is kept."""
    shutil.rmtree(scratch / "home")  # the first time
    demo = Demo(scratch, "--auto", **HOSTILE)
    demos.append(demo)
    assert demo.process.wait(170) == 0, demo.said()
    (path,) = (demo.home / "evidence").iterdir()
    evidence = json.loads(path.read_text())
    assert str(path) in demo.said()
    assert evidence["ok"] is True
    assert evidence["command"].endswith("demo --port 0 --auto")
    assert evidence["versions"]["postgresql"].startswith("18")
    assert evidence["model"] == {"name": "signoff-scripted", "scripted": True}
    assert "refund-over-limit" in evidence["checkpoints"]["text"]
    assert len(evidence["checkpoints"]["digest"]) == 64
    assert not re.search("xoxb|xapp|sk-scripted", path.read_text())
    assert [step["step"] for step in evidence["steps"]] == [
        *(f"{number + 1}. {scene.title}" for number, scene in enumerate(guided_scenes.for_refunds().scenes)),
        "The audit log",
    ]
    assert all(check["ok"] for step in evidence["steps"] for check in step["checks"])
    orders = {order["order_id"]: (order["status"], order["cause"]) for order in evidence["orders"]}
    assert orders[2] == orders[4] == orders[6] == orders[7] == orders[10] == ("REFUNDED", None)
    assert orders[5] == ("REFUND_REJECTED", "rejected")
    assert orders[8] == ("REFUND_REJECTED", "expired")
    (killed,) = (step for step in evidence["steps"] if "Crash" in step["step"])
    observed = {check["what"]: check["observed"] for check in killed["checks"]}
    assert observed["starts of the service, killed twice"] == 3
    assert observed["attempts to run the refund"] == 1


async def test_a_demo_over_the_data_of_an_earlier_checkout_begins_anew(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start says that it has an empty database, and has one, whatever an earlier checkout left there."""
    monkeypatch.setenv("SIGNOFF_HOME", str(scratch / "home"))
    said: list[str] = []
    with claim_workdir() as workdir:
        server = embedded_server.start(workdir.postgres, durable=False)
        with psycopg.connect(Address.read(server.fresh_database(DATABASE)).conninfo()) as connection:
            connection.execute("CREATE SCHEMA signoff CREATE TABLE alembic_version (version_num text)")
            connection.execute("INSERT INTO signoff.alembic_version VALUES ('0033')")
        server.stop()
        async with AsyncExitStack() as stack:
            url = _database(stack, workdir, said.append)
            assert not migrations.pending(url)
    assert said == ["PostgreSQL, embedded, with an empty database"]


def test_a_killed_demo_is_cleared_away_and_ctrl_c_leaves_nothing(scratch: Path, demos: list[Demo]) -> None:
    """A demo ends the service that a killed demo has left behind, and Ctrl-C ends every process."""
    demos.append(Demo(scratch))
    first = demos[0].wait_for(r"kill -9 (\d+)")[1]
    orphan = psutil.Process(int(first))
    demos[0].process.kill()
    demos[0].process.wait()
    assert orphan.is_running()

    demos.append(Demo(scratch))
    second = demos[1].wait_for(r"kill -9 (\d+)")[1]
    assert not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE
    server = psutil.Process(int((demos[1].home / "demo/postgres/postmaster.pid").read_text().split()[0]))
    family = [psutil.Process(int(second)), server, *server.children()]
    demos[1].process.send_signal(signal.SIGINT)
    assert demos[1].process.wait(30) == 0, demos[1].said()
    _, alive = psutil.wait_procs(family, timeout=5)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []


def test_a_service_that_cannot_start_is_told_with_its_log(scratch: Path, demos: list[Demo]) -> None:
    """When the service never comes up the demo ends with exit code 1, why, and the end of the service's log."""
    (scratch / "sitecustomize.py").write_text(
        "import os, sys\nif 'SLACK_API_URL' in os.environ:\n    sys.exit('the disk is full of bees')\n"
    )
    demo = Demo(scratch, "--auto", python=sys.executable, PYTHONPATH=f"{ROOT}:{scratch}")
    demos.append(demo)
    assert demo.process.wait(60) == 1
    assert "the service does not start" in demo.said()
    assert "full of bees" in demo.said()


def test_a_step_that_goes_wrong_gives_a_failing_exit_code(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One unexpected observation is enough for exit code 1, a cross, and evidence of it."""

    def one(seconds: int) -> Guide:
        step = Step("Wait.", lambda _: True, act={"as": ADA, "home": True})
        return Guide("Wrong", [Scene("Wrong", "", [step], "", proofs=[order(1, "REFUNDED", within=0.1)])])

    monkeypatch.setenv("SIGNOFF_HOME", str(scratch / "home"))
    monkeypatch.setattr(sys, "executable", warm())
    monkeypatch.setattr(guided_scenes, "for_refunds", one)
    assert run_demo(auto=True, agents=None, port=0) == 1
    assert "✗ order 1: PAID, expected REFUNDED" in capsys.readouterr().out
    (path,) = (scratch / "home" / "evidence").iterdir()
    assert json.loads(path.read_text())["ok"] is False


async def test_a_busy_port_means_the_next_free_one() -> None:
    """The page moves on when its port is taken, and says where to."""
    notices: list[str] = []
    guide = guided_scenes.for_refunds()
    async with _sandbox(demo_workspace(), guide, 0, notices.append) as first:
        assert notices == []
        async with _sandbox(demo_workspace(), guide, first.port, notices.append) as second:
            assert first.port < second.port <= first.port + 20
            assert notices == [f"port {first.port} is taken; the page is on {second.port}"]


async def test_two_demos_have_two_ports() -> None:
    """While one demo runs, no other takes its service's port, also before it listens and while it starts again.

    The other demo says which port it has instead: the pages name the usual one.
    """
    notices: list[str] = []
    async with AsyncExitStack() as first, AsyncExitStack() as second:
        port = _hold_port(first, 8080, lambda _: None)
        other = _hold_port(second, port, notices.append)
        assert other > port
        assert notices == [f"port {port} is taken; the API and the inbox page are on {other}"]
        for _ in range(2):  # two lives of the service
            server = await asyncio.start_server(lambda *_: None, "127.0.0.1", port)
            server.close()
            await server.wait_closed()
    async with AsyncExitStack() as third:
        assert _hold_port(third, port, notices.append) == port
    assert len(notices) == 1


async def test_somebodys_own_agents_run_in_the_sandbox(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of `signoff init` work with `signoff demo --agents --model`: a card, a click, the result; the inbox.

    A webhook of a program on this machine is notified.
    """
    write_starter(scratch)
    monkeypatch.chdir(scratch)
    monkeypatch.setenv("SIGNOFF_HOME", str(scratch / "home"))
    monkeypatch.setattr(sys, "executable", warm())
    guide = guided_agents.for_agents(["data_manager"], scripted=True)
    with claim_workdir() as folder:
        async with AsyncExitStack() as stack:
            provider = await stack.enter_async_context(ScriptedModel(api_key="sk-own"))
            caller = {"OPENAI_API_KEY": "sk-own", "OPENAI_BASE_URL": provider.base_url}
            opened = open_environment(
                folder,
                folder_policy(scratch),
                workspace_of_agents(),
                guide,
                print,
                port=0,
                agents="my_agents",
                model=await models.real(MODEL_NAME, caller),
            )
            stand = await stack.enter_async_context(opened)
            slack = stand.slack
            program = await stack.enter_async_context(a_receiver())
            database = await stack.enter_async_context(Database(stand.database_url))
            await webhooks.add(database, "program", program.url, by="test", allowed=LOOPBACK)
            task = "run data_manager delete 50 records from the users table"
            await slack.person("U0ADA").command("/agent", task, "C0AGENTS")
            (card,) = await slack.wait_for(lambda: slack.messages("C0REVIEWS"), timeout=20)
            assert "Delete 50 records from “users”" in card["text"]
            await slack.person("U0GRACE").click(card, "signoff:approve")
            await slack.wait_for(lambda: "Done" in str(slack.messages("C0REVIEWS")), timeout=20)
            await slack.wait_for(lambda: "decision.made" in program.events(), timeout=20)
            assert provider.requests
            inbox = await slack.person("U0GRACE").command("/approvals", "inbox", "C0REVIEWS")
            assert f"{stand.address}/sign-in/link/" in str(inbox.response)
            assert guide.finished(slack) == ["Run your agent", "Open it in the browser"]
