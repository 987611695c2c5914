"""The documentation's examples in other languages, run unchanged."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.domain.api_keys import Scope
from tests.integration.service.conftest import until
from tests.integration.web.living import ADA, GRACE, Living, living

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Living]:
    """The service with its example agents."""
    async with living(database_url) as opened:
        yield opened


async def _run(*command: str, **environment: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *command,
        env={"PATH": os.environ["PATH"], "NO_PROXY": "*", **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("word", ["approved", "rejected"])
async def test_the_node_script_asks_waits_does_and_reports(service: Living, word: str) -> None:
    """Approved: it claims, does it and reports, which is on record; rejected: it says by whom and why, and fails."""
    key, grace = await service.key("node", Scope.REQUEST, owner=ADA), await service.reviewer()
    script = asyncio.create_task(
        _run("node", str(DOCS / "examples" / "approval.mjs"), "n-1", SIGNOFF_URL=service.url, SIGNOFF_KEY=key)
    )

    async def waits() -> list[Any]:
        return await service.house.column("SELECT id FROM approval_request WHERE status = 'waiting'")

    await until(waits)
    decided = await grace.post("/approve/n-1", json={"decision": word, "reason": "because"})
    assert decided.status_code == 200, decided.text
    code, out, err = await script
    results = await service.house.column("SELECT result FROM execution")
    if word == "approved":
        assert code == 0, err
        assert "Deleted 5 records from customers" in out
        assert results == ["Deleted 5 records from customers"]
    else:
        assert (code, results) == (1, [])
        assert f"rejected by {GRACE.user_id}: because" in err


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_the_curls_of_the_documentation_work(service: Living) -> None:
    """Each block with its placeholders filled in: asked and approved; started and answered; paused and confirmed."""
    keys = {
        "ASK_KEY": await service.key("ask", Scope.REQUEST, owner=ADA),
        "DECIDE_KEY": await service.key("decide", Scope.DECIDE, Scope.READ, owner=GRACE),
    }
    pages = [(DOCS / page).read_text(encoding="utf-8") for page in ("api.md", "api-agents.md")]
    ask, agents = (
        re.findall(r"```bash\n(.*?)```", page.replace("http://127.0.0.1:8080", service.url), re.DOTALL)
        for page in pages
    )
    blocks = [*ask, *agents[:2]]  # the other ones listen to events until they are stopped
    known: dict[str, str] = {}
    answers: list[Any] = []
    for shown in [each for block in blocks for each in re.split(r"\n(?=curl )", f"\n{block}")[1:]]:
        curl = shown.partition("\n\n")[0]
        for name, value in known.items():
            curl = curl.replace(name, value)
        if "/respond" in curl:
            await service.becomes(await service.reviewer(), known["AGENT_ID"], "pending_approval")
        code, out, err = await _run("bash", "-c", curl, **keys)
        assert code == 0, err
        answer = json.loads(out)
        answers.append(answer)
        if isinstance(answer, dict):
            known |= {"AGENT_ID": answer["agent_id"]} if "question" in answer else {}
            if answer.get("status") == "paused":
                known |= {"RUN_ID": answer["run_id"], "TOOL_CALL_ID": answer["tools"][0]["tool_call_id"]}
    asked, decided, waited, started, _, responded, paused, confirmed = answers
    assert [each["status"] for each in (asked, decided, waited)] == ["waiting", "approved", "approved"]
    assert started["ok"] is True
    assert responded["ok"] is True
    assert (paused["status"], confirmed["status"]) == ("paused", "completed")
