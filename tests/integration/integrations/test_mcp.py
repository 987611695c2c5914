"""`signoff mcp` as clients of the Model Context Protocol meet it: a process of its own, over its pipes."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import pytest
import uvicorn
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import TextContent

from signoff.client import AsyncApprovalClient
from signoff.integrations.mcp import server
from slackbot.cli import main
from tests.integration.integrations.conftest import ROOT, Desk
from tests.integration.web.conftest import until
from tests.warm_python import warm

FIFTY = {"table_name": "users", "count": 50}


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """The command `signoff`, as it is installed beside an agent."""
    script = tmp_path / "signoff"
    begin = f'exec {warm()} -m slackbot "$@"'
    script.write_text(f"#!/bin/sh\nexport PYTHONPATH={ROOT}\n{begin}\n")
    script.chmod(0o755)
    return script


@asynccontextmanager
async def connected(actors: Desk, command: Path, *options: str) -> AsyncIterator[Client]:
    """A client whose server is a process of its own."""
    settings = {"SIGNOFF_URL": actors.url, "SIGNOFF_KEY": actors.key}
    async with Client(
        StdioServerParameters(command=str(command), args=["mcp", *options], env=settings)
    ) as client:
        yield client


@asynccontextmanager
async def near(url: str, key: str, **options: Any) -> AsyncIterator[Client]:
    """A client whose server is in the same process."""
    async with AsyncApprovalClient(url, key) as asking, Client(server(asking, **options)) as client:
        yield client


@asynccontextmanager
async def over_http(asking: AsyncApprovalClient) -> AsyncIterator[str]:
    """The address of a server for many clients."""
    config = uvicorn.Config(server(asking).streamable_http_app(), host="127.0.0.1", port=0, log_level="error")
    serving = uvicorn.Server(config)
    with config.bind_socket() as socket:
        running = asyncio.create_task(serving.serve([socket]))
        yield f"http://127.0.0.1:{socket.getsockname()[1]}/mcp"
        serving.should_exit = True
        await running


async def prompt(client: Client, name: str = "delete_records", **changes: Any) -> dict[str, Any]:
    """What a coding agent does before it uses a tool; the answer is JSON in one text."""
    arguments = {"tool_name": name, "input": FIFTY, **changes}
    [block] = (await client.call_tool("permission_prompt", arguments)).content
    assert isinstance(block, TextContent)
    answer: dict[str, Any] = json.loads(block.text)
    return answer


async def word(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The answer of request_approval or get_decision."""
    return (await client.call_tool(tool, arguments)).structured_content or {}


async def test_a_coding_agent_asks_before_it_uses_a_tool(actors: Desk, command: Path) -> None:
    """Allowed with the input that people decided, once; denied with their reason; a killed server loses nothing, and
    what another program was allowed is handed to nobody here.
    """
    killed, waiting = False, dict[str, Any]()
    try:
        async with connected(actors, command, "--timeout", "1m") as client:
            running = asyncio.create_task(prompt(client, tool_use_id="toolu_01"))
            await actors.asked()
            await actors.click()
            assert await running == {"behavior": "allow", "updatedInput": FIFTY}
            again = await prompt(client, tool_use_id="toolu_01")
            assert (again["behavior"], "already claimed" in again["message"]) == ("deny", True)

            running = asyncio.create_task(prompt(client, tool_use_id="toolu_02"))
            await actors.edit(await actors.asked(2), FIFTY | {"count": 3})
            assert await running == {"behavior": "allow", "updatedInput": FIFTY | {"count": 3}}

            running = asyncio.create_task(prompt(client))
            await actors.decide(await actors.asked(3), "rejected", reason="Not on a Friday")
            denied = await running
            assert (denied["behavior"], "Not on a Friday" in denied["message"]) == ("deny", True)
            more: dict[str, Any] = {"permission_suggestions": []}  # what other versions may send along
            assert (await prompt(client, "read_records", **more))["behavior"] == "allow"

            asked = {"action": "delete_records", "arguments": FIFTY, "key": "k", "wait": 0}
            waiting = await word(client, "request_approval", **asked)
            killed = True
            for process in psutil.Process().children(recursive=True):
                if "mcp" in process.cmdline():
                    process.kill()
            await client.call_tool("get_decision", {"request_id": "mcp-k"})
            pytest.fail("the server was not killed")
    except Exception:
        if not killed:  # how a client tells that its server was killed is its own affair
            raise
    assert (waiting["approved"], waiting["status"], waiting["request_id"]) == (False, "waiting", "mcp-k")
    assert await actors.statuses() == ["approved", "approved", "rejected", "waiting"]
    assert await actors.executions() == ["succeeded", "succeeded"]

    await actors.edit(await actors.asked(4), FIFTY | {"count": 3}, reason="Three will do")
    async with near(actors.url, actors.key) as client:
        approved = await word(client, "get_decision", request_id="mcp-k")
        assert (approved["approved"], approved["arguments"]) == (True, FIFTY | {"count": 3})
        assert "Three will do" in approved["message"]
        used = await word(client, "get_decision", request_id="mcp-k")
        assert (used["approved"], used["status"], used["arguments"]) == (False, "used", None)
        async with AsyncApprovalClient(actors.url, actors.key) as program:
            await program.submit("delete_records", FIFTY, key="release-17")
            await actors.decide(await actors.asked(5))
        for name in (await actors.asked(), "mcp-k/../release-17", "mcp-k/%2e%2e/release-17"):
            other = await word(client, "get_decision", request_id=name)
            assert (other["approved"], other["status"]) == (False, "error")
    assert len(await actors.executions()) == 3


async def test_whatever_is_no_approval_is_a_denial(actors: Desk) -> None:
    """Silence, a call that is cancelled, a service that is away and a key that it does not know allow nothing."""
    async with near(actors.url, actors.key, timeout=0.3) as client:
        denied = await prompt(client)
        assert (denied["behavior"], "nobody has decided" in denied["message"]) == ("deny", True)
    assert await actors.statuses() == ["cancelled"]

    async with near(actors.url, actors.key) as client:
        running = asyncio.create_task(prompt(client))
        await actors.asked(2)
        running.cancel()

        async def withdrawn() -> bool:
            return await actors.statuses() == ["cancelled", "cancelled"]

        await until(withdrawn)

    for url, expected in (("http://127.0.0.1:9", "does not answer"), (actors.url, "401")):
        async with near(url, "signoff_nobody", timeout=0.5) as client:
            denied = await prompt(client)
            refused = await word(client, "request_approval", action="delete_records", arguments=FIFTY)
        assert (denied["behavior"], expected in denied["message"]) == ("deny", True)
        assert (refused["approved"], refused["status"], refused["arguments"]) == (False, "error", None)
        assert expected in refused["message"]


async def test_the_server_says_what_it_has_and_no_more(actors: Desk, command: Path) -> None:
    """Its version and its tools, and neither prompts nor resources; a field that a tool does not know is refused by the
    tool and by its schema, and nobody is asked. A rejection is no error in its log.
    """
    async with AsyncExitStack() as stack:
        asking = await stack.enter_async_context(AsyncApprovalClient(actors.url, actors.key))
        near_by: list[AbstractAsyncContextManager[Client]] = [
            Client(server(asking), mode=mode) for mode in ("auto", "legacy")
        ]
        for opening in (*near_by, connected(actors, command)):
            client = await stack.enter_async_context(opening)
            assert client.server_info
            assert client.server_info.version == version("signoff")
            offered = client.server_capabilities.model_dump(exclude_none=True)
            assert offered == {"tools": {"list_changed": False}}
            with pytest.raises(MCPError, match="not found"):
                await client.list_prompts()
            tools = {each.name: each.input_schema for each in (await client.list_tools()).tools}
            for name in ("request_approval", "get_decision"):
                assert tools[name]["additionalProperties"] is False
            wrong = {"action": "delete_records", "argument": FIFTY}
            refused = await client.call_tool("request_approval", wrong)
            assert refused.is_error
            assert "argument\n  Extra inputs are not permitted" in str(refused.content[0].text)  # type: ignore[union-attr]
    assert await actors.statuses() == []


async def test_a_rejection_is_no_error_in_the_log(actors: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """What people decide is no fault: the server logs nothing above INFO."""
    with caplog.at_level(logging.INFO):
        async with near(actors.url, actors.key) as client:
            running = asyncio.create_task(prompt(client))
            await actors.decide(await actors.asked(), "rejected", reason="Not on a Friday")
            assert "Not on a Friday" in (await running)["message"]
    assert "CollaborationError: rejected" in caplog.text
    assert [each.getMessage() for each in caplog.records if each.levelno > logging.INFO] == []


async def test_a_connection_is_a_session(actors: Desk, command: Path) -> None:
    """Two connections are two conversations, over HTTP as well; `--session` names one that outlives them."""
    asked = {"action": "delete_records", "arguments": FIFTY, "wait": 0}
    async with connected(actors, command, "--session", "chat-1") as client:
        tools = {each.name: each.input_schema["properties"] for each in (await client.list_tools()).tools}
        assert "ctx" not in tools["request_approval"]
        await word(client, "request_approval", **asked, key="a")
    for key in ("b", "c"):
        async with near(actors.url, actors.key) as client:
            await word(client, "request_approval", **asked, key=key)
            await word(client, "request_approval", **asked, key="a")  # asked in another conversation before
    async with AsyncApprovalClient(actors.url, actors.key) as asking, over_http(asking) as url:
        for key in ("d", "e"):
            async with Client(url, mode="legacy") as client:
                await word(client, "request_approval", **asked, key=key)
                await word(client, "request_approval", **asked, key=f"{key}-2")
    first, second, third, *rest = await actors.site.sessions()
    assert (first, second != third) == ("chat-1", True)
    assert (rest[0], rest[2]) == (rest[1], rest[3])
    assert len({first, second, third, *rest}) == 5


async def test_the_example_does_what_was_decided(actors: Desk, command: Path) -> None:
    """The example starts `signoff mcp`, waits, and does exactly what people decided."""
    running = await actors.run(ROOT / "examples" / "mcp_agent.py", PATH=f"{command.parent}:/usr/bin:/bin")
    await actors.edit(await actors.asked(), FIFTY | {"count": 3})
    out, err = await asyncio.wait_for(running.communicate(), 60)
    assert out.decode() == "Deleted 3 records from users\n", err.decode()


@pytest.mark.parametrize(
    ("url", "words"), [(None, "SIGNOFF_URL is not set"), ("signoff.example", "must begin with https://")]
)
def test_a_wrong_address_is_told_at_once(
    url: str | None, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`signoff mcp` without an address, or with a wrong one, says in one line what is wrong, and serves nothing."""
    monkeypatch.setattr(sys, "argv", ["signoff", "mcp"])
    monkeypatch.setenv("SIGNOFF_KEY", "signoff_nobody")
    monkeypatch.delenv("SIGNOFF_URL", raising=False)
    if url:
        monkeypatch.setenv("SIGNOFF_URL", url)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert words in printed.err
    assert not printed.out
