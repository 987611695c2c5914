"""A process that is stopping: it reports that, takes nothing new, finishes its work, and lets nobody wait."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from pathlib import Path

import httpx

from agent.database.pools import Database
from agent.domain.api_keys import Scope
from agent.usecases import api_keys
from signoff_demo.sandbox import SlackSandbox
from signoff_demo.sandbox.model import ScriptedModel
from tests.integration.asking import column
from tests.integration.crash.process import Serve
from tests.integration.crash.street import until
from tests.integration.web.conftest import ADA

AGENT = '''
import time
from pathlib import Path
from signoff import Agent, tool

HERE = Path({folder!r})

@tool(read_only=True, timeout=60)
def take_time(n: int) -> str:
    """Take as long as it takes."""
    (HERE / "began").touch()
    while not (HERE / "go").exists():
        time.sleep(0.02)
    return "taken"

agent = Agent("patient", "You take time.", [take_time])
'''
ASKED = {
    "request_id": "r-1",
    "action_description": "Delete 5 records",
    "agent_context": {},
    "timestamp": "2026-11-21T09:30:00Z",
}


async def test_sigterm_drains(database_url: str, tmp_path: Path) -> None:
    """Not ready at once; a long-poll is answered at once; the running call ends and is recorded; then exit code 0."""
    (tmp_path / "checkpoints.toml").write_text(
        '[defaults]\napprovers = ["S0FINANCE"]\nchannel = "C0REVIEW"\n'
    )
    (tmp_path / "patient.py").write_text(AGENT.format(folder=str(tmp_path)))
    async with (
        SlackSandbox(rate_limits=False, echo=False) as slack,
        ScriptedModel() as model,
        Database(database_url) as db,
    ):
        settings = {
            "DATABASE_URL": database_url,
            "SLACK_BOT_TOKEN": slack.bot_token,
            "SLACK_SIGNING_SECRET": slack.signing_secret,
            "SLACK_API_URL": slack.api_url,
            "OPENAI_API_KEY": "sk-scripted",
            "OPENAI_BASE_URL": model.base_url,
            "SIGNOFF_AGENTS": "patient",
            "SIGNOFF_PORT": "0",
            "SIGNOFF_DRAIN_SECONDS": "30",
            "SIGNOFF_PRE_STOP_SECONDS": "2",
            "SIGNOFF_LOG_FORMAT": "json",
        }
        serve = Serve(settings, tmp_path)
        await serve.start()
        try:
            await _drained(serve, slack, db, tmp_path)
        finally:
            await serve.kill()


async def _drained(serve: Serve, slack: SlackSandbox, db: Database, folder: Path) -> None:
    slack.request_url = f"http://127.0.0.1:{serve.port}/slack/events"
    secret = await api_keys.create(db, "crm", [Scope.REQUEST], by="test", owner=ADA)
    headers = {"Authorization": f"Bearer {secret}"}
    url = f"http://127.0.0.1:{serve.port}"
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as client:
        asked = await client.post("/pending", json=ASKED)
        assert asked.status_code == 201, asked.text
        waiting = asyncio.create_task(client.get("/pending/r-1", params={"wait": 30}))
        answer = await slack.person("U0ADA").command("/agent", "run patient take_time n=1", "C0AGENTS")
        assert answer.error is None, answer.error
        await until(partial(asyncio.to_thread, (folder / "began").exists), 30, serve.said)
        assert not waiting.done()
        serve.terminate()
        await until(lambda: _is_draining(client), 10, serve.said)
        scraped = (await client.get("/metrics")).text
        assert "signoff_web_alive 0.0" in scraped
        assert re.search(r"^signoff_http_server_errors_total [1-9]", scraped, re.MULTILINE), (
            "/readyz is a 503"
        )
        async with asyncio.timeout(10):
            waited = await waiting
    assert (waited.status_code, waited.json()["status"]) == (200, "waiting"), waited.text
    assert serve.alive, "what is under way is waited for"
    (folder / "go").touch()
    assert await serve.ends(20) == 0, serve.said()
    assert await column(db, "SELECT status::text FROM execution") == ["succeeded"]
    assert '"database_connections"' in serve.said(1000)


async def _is_draining(client: httpx.AsyncClient) -> bool:
    answer = await client.get("/readyz")
    return answer.status_code == 503 and answer.json()["draining"] is True
