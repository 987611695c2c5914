"""A client that openapi-python-client makes from the API's description: whole, and it works."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from agent.domain.api_keys import Scope
from agent.runtime.agents import Agent
from agent.usecases import api_keys
from tests.integration.web.conftest import ADA, GRACE, Street
from tests.integration.web.visiting import data_agent

PACKAGE = "signoff_client"
"""Named by the generator, after the document's title."""


@pytest.fixture
def agents() -> list[Agent]:
    return [data_agent()]


@pytest.fixture
async def generated(site: Street, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, str]:
    """The document, and what the generator said; the client can be imported."""
    document = (await (await site.program()).get("/openapi.json")).json()
    (tmp_path / "openapi.json").write_text(json.dumps(document))
    (tmp_path / "config.yml").write_text("post_hooks: []\n")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "openapi_python_client", "generate", "--config", "config.yml"),
        *("--path", "openapi.json", "--output-path", "made"),
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said = (await process.communicate())[0].decode()
    assert process.returncode == 0, said
    monkeypatch.syspath_prepend(tmp_path / "made")
    return document, said


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    for name in [each for each in sys.modules if each.split(".")[0] == PACKAGE]:
        del sys.modules[name]


def module_of(operation_id: str) -> Any:
    """The generated module of an operation."""
    root = Path(import_module(PACKAGE).__file__ or "").parent
    [found] = root.glob(f"api/*/{operation_id}.py")
    return import_module(f"{PACKAGE}.api.{found.parent.name}.{operation_id}")


async def test_a_generated_client_has_every_operation_and_works(
    site: Street, generated: tuple[Any, str]
) -> None:
    """No operation is dropped; a question is asked, read, decided and claimed, and an agent's
    run started and continued, through the generated code alone.
    """
    document, said = generated
    assert "WARNING" not in said.upper(), said
    for item in document["paths"].values():
        for operation in item.values():
            if isinstance(operation, dict):
                module_of(operation["operationId"])
    client, models = import_module(PACKAGE), import_module(f"{PACKAGE}.models")

    async def of(name: str, scope: Scope, owner: Any) -> Any:
        secret = await api_keys.create(site.db, name, [scope], by="test", owner=owner)
        return client.AuthenticatedClient(base_url=site.url, token=secret)

    asker, decider = await of("made", Scope.REQUEST, ADA), await of("grace-made", Scope.DECIDE, GRACE)
    asked = {
        "request_id": "r-1",
        "action": "delete_records",
        "arguments": {"table_name": "customers", "count": 5},
    }

    async def call(operation_id: str, using: Any, *path: str, **given: Any) -> Any:
        answer = await module_of(operation_id).asyncio_detailed(*path, client=using, **given)
        assert answer.status_code in (200, 201), answer.content
        return answer.parsed

    opened = await call("open_request", asker, body=models.AskIn.from_dict(asked))
    assert (opened.status, opened.action.arguments.additional_properties["count"]) == ("waiting", 5)
    await call("decide_request", decider, "r-1", body=models.DecideIn.from_dict({"decision": "approved"}))
    assert (await call("read_request", asker, "r-1", wait="5s")).status == "approved"
    claimed = await call("claim_request", asker, "r-1", body=models.ClaimIn.from_dict({"lease": "10m"}))
    assert claimed.token

    message = "please delete_records table_name=users count=50"
    begun = models.RunStart.from_dict({"message": message, "stream": False})
    run = await call("create_agent_run", asker, "data", body=begun)
    [tool] = run.tools
    assert (run.status, tool.tool_args.additional_properties["count"]) == ("paused", 50)
    word = {"tools": [{"tool_call_id": str(tool.tool_call_id), "confirmed": True}]}
    confirmed = models.RunContinue.from_dict(word)
    run = await call("continue_agent_run", decider, "data", run.run_id, body=confirmed)
    assert (run.status, run.tools[0].result) == ("completed", "Deleted 50 records from users")
