"""A program whose agent makes four calls in one turn, in each framework: `batch_program.py FRAMEWORK FOLDER`.

Its environment has the addresses. It waits for people, and prints what its tools did, and what each call answered.
Started again after it was killed, it goes on.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

from signoff.client import ApprovalClient
from signoff.integrations import langchain, langgraph
from signoff.integrations.pydantic_ai import PausedRun
from tests.integration.integrations import test_agno, test_langchain, test_openai_agents, test_pydantic_ai

TABLES = ("carts", "logs", "orders", "users")
TASK = " ".join(f"delete_records table_name={table} count=50" for table in TABLES)

Done = list[tuple[str, int]]


def desk() -> Any:
    """What the tests' agents need to know of the service and of the model."""
    model = SimpleNamespace(base_url=os.environ["MODEL_URL"])
    site = SimpleNamespace(house=SimpleNamespace(model=model))
    return SimpleNamespace(url=os.environ["SIGNOFF_URL"], key=os.environ["SIGNOFF_KEY"], site=site)


@contextmanager
def saver() -> Iterator[Any]:
    with PostgresSaver.from_conn_string(os.environ["AGENT_DATABASE_URL"]) as opened:
        opened.setup()
        yield opened


async def of_langchain(_: Path) -> tuple[Done, str]:
    done: Done = []
    with saver() as kept, ApprovalClient(desk().url, desk().key) as client:
        begun = kept.get_tuple(test_langchain.CONFIG) is not None
        agent = test_langchain.an_agent(kept, done, *TABLES, said=int(begun))
        if not begun:
            agent.invoke({"messages": [("user", "tidy up")]}, test_langchain.CONFIG)
        values = langchain.resume_when_decided(client, agent, test_langchain.CONFIG, timeout=60)
    return done, str(test_langchain.results(values))


class _State(TypedDict):
    said: Annotated[list[str], lambda one, other: [*one, *other]]


def _step(table: str, done: Done) -> Any:
    """It asks in agent inbox's format."""
    config = dict.fromkeys(("allow_ignore", "allow_respond", "allow_edit", "allow_accept"), True)
    arguments = {"table_name": table, "count": 50}

    def step(_: _State) -> dict[str, list[str]]:
        request = {"action": "delete_records", "args": arguments}
        [answer] = interrupt([{"action_request": request, "config": config, "description": None}])
        if answer["type"] not in ("accept", "edit"):
            return {"said": [str(answer["args"])]}
        decided: Any = answer["args"]["args"] if answer["type"] == "edit" else arguments
        done.append((decided["table_name"], decided["count"]))
        return {"said": ["done"]}

    return step


async def of_langgraph(_: Path) -> tuple[Done, str]:
    """Four interrupts of four nodes that run at once."""
    done: Done = []
    graph = StateGraph(_State)
    for table in TABLES:
        graph.add_node(table, _step(table, done)).add_edge(START, table)
    with saver() as kept, ApprovalClient(desk().url, desk().key) as client:
        compiled = graph.compile(checkpointer=kept)
        if kept.get_tuple(test_langchain.CONFIG) is None:
            compiled.invoke({"said": []}, test_langchain.CONFIG)
        values = langgraph.resume_when_decided(client, compiled, test_langchain.CONFIG, timeout=60)
    return done, str(values["said"])


async def of_pydantic_ai(folder: Path) -> tuple[Done, str]:
    calls = {table: {"table_name": table, "count": 50} for table in TABLES}
    agent, file = test_pydantic_ai.Cleaner(desk(), calls), folder / "paused.json"
    if not file.exists():
        file.write_bytes((await agent.paused()).to_json())
    paused = PausedRun.of_json(file.read_bytes())
    answers = await agent.approvals.answer(paused.requests, key="run-1")
    return agent.deleted, await agent.go_on(paused, answers)


async def of_openai_agents(folder: Path) -> tuple[Done, str]:
    agent = test_openai_agents.Cleaner(desk(), folder)
    result = await agent.begin(TASK)
    return agent.deleted, str(result.to_input_list())


async def of_agno(folder: Path) -> tuple[Done, str]:
    agent = test_agno.Cleaner(desk(), folder / "runs.db")
    run = await agent.begin(TASK)
    return agent.deleted, str([each.to_dict() for each in run.messages])


FRAMEWORKS: dict[str, Callable[[Path], Awaitable[tuple[Done, str]]]] = {
    "langchain": of_langchain,
    "langgraph": of_langgraph,
    "pydantic-ai": of_pydantic_ai,
    "openai-agents": of_openai_agents,
    "agno": of_agno,
}


async def main(framework: str, folder: str) -> None:
    done, said = await FRAMEWORKS[framework](Path(folder))
    print(json.dumps({"done": sorted(done), "said": said}))  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
