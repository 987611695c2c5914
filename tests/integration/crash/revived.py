"""A worker that is stopped (SIGSTOP) until its lease has expired, and then continued."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import Any

import psutil

from signoff_demo.sandbox.model import ScriptedCall, ScriptedTurn
from tests.integration.crash.process import Serve
from tests.integration.crash.street import Street, street, until


def second(here: Street) -> Serve:
    """Another worker and scheduler on the same database."""
    return Serve({**here.serve.settings, "SIGNOFF_ROLES": "worker,scheduler"}, here.serve.folder)


def process_of(serve: Serve) -> psutil.Process:
    assert serve._process is not None
    return psutil.Process(serve._process.pid)


async def is_stopped(process: psutil.Process) -> bool:
    return bool(process.status() == psutil.STATUS_STOPPED)


async def frozen_before_its_effect(url: str, folder: Path, seconds: float) -> None:
    """Stopped after the claim, its attempt becomes in doubt; continued, the worker starts no effect and changes
    nothing.
    """
    async with street(url, folder, lanes=1) as here:
        await here.start("freeze@after_approved_claim", SIGNOFF_ROLES="web,worker")
        process = process_of(here.serve)
        other = second(here)
        await here.ask(0)
        card = await here.card(0)
        clicked = asyncio.create_task(here.slack.person("U0GRACE").click(card, "signoff:approve"))
        await until(lambda: is_stopped(process), 20.0)
        since = time.monotonic()
        await other.start(listens=False)
        try:
            doubtful = "SELECT 1 FROM execution WHERE status = 'in_doubt'"
            await until(lambda: here.column(doubtful), 60.0, other.said)
            await asyncio.sleep(since + seconds - time.monotonic())  # what the test measures
            before = await here.column(_WRITTEN)
            process.send_signal(signal.SIGCONT)
            await asyncio.gather(clicked, return_exceptions=True)
            late = "SELECT late_result FROM execution WHERE late_result IS NOT NULL"
            [said] = await until(lambda: here.column(late), 20.0, here.serve.said)
            assert (
                "Nothing was done: the worker was delayed for longer than its lease before the call began"
                in said
            )
            assert here.written() == {}
            assert await here.column("SELECT status::text FROM execution") == ["in_doubt"]
            assert await here.column(_WRITTEN) == before
        finally:
            process.send_signal(signal.SIGCONT)
            await other.kill()


async def frozen_in_its_turn(url: str, folder: Path, seconds: float) -> None:
    """Stopped while its model answers: another worker makes the turn, and the stopped one writes nothing. If that takes
    longer than its model may (60 s), the continued worker has had no answer, and writes nothing of that either.
    """
    async with street(url, folder, lanes=1) as here:
        answered = asyncio.Event()

        async def slow(body: dict[str, Any]) -> ScriptedTurn:
            await answered.wait()
            return ScriptedTurn("An old thought.", (ScriptedCall("write_line", {"lane": 0}),))

        here.model.script(slow, "A new thought.")
        await here.start(SIGNOFF_ROLES="web,worker")
        process = process_of(here.serve)
        other = second(here)
        await here.ask(0)
        await here.model.wait_for_request(1, timeout=60.0)
        process.send_signal(signal.SIGSTOP)
        since = time.monotonic()
        await until(lambda: is_stopped(process), 5.0)
        await other.start(listens=False)
        try:
            ended = "SELECT answer FROM agent_run WHERE status = 'completed'"
            assert await until(lambda: here.column(ended), 40.0, other.said) == ["A new thought."]
            await asyncio.sleep(since + seconds - time.monotonic())  # what the test measures
            before = await here.column(_WRITTEN)
            answered.set()
            process.send_signal(signal.SIGCONT)
            await here.serve.says("run.lease_lost", seconds=20.0)
            assert await here.column(_WRITTEN) == before
            assert await here.column("SELECT count(*) FROM tool_call") == [0]
        finally:
            process.send_signal(signal.SIGCONT)
            await other.kill()


# Everything that a worker may write of a run, except a late result beside a settled or doubtful attempt.
_WRITTEN = """
SELECT 'run ' || id || status || turn || inputs || heard || coalesce(answer, '') FROM agent_run UNION ALL
SELECT 'message ' || run_id || seq || coalesce(text, '') FROM run_message UNION ALL
SELECT 'call ' || id || state || coalesce(answer, '') FROM tool_call UNION ALL
SELECT 'attempt ' || id || status || coalesce(result, '') || coalesce(error, '') FROM execution ORDER BY 1
"""
