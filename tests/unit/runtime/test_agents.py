"""Agents as values, and loading them from modules."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from agent.domain.policy import Policy
from agent.domain.tool_outline import explain
from agent.runtime.agents import Agent, LoadError, Registry, load_agents
from agent.runtime.step_tools import StepTool
from agent.runtime.tool import Tool, tool


@tool
def look(what: str) -> str:
    """Look."""
    return what


@tool(background=True)
def pay(order_id: int) -> str:
    """Pay."""
    return "paid"


def undecorated(a: int) -> None: ...


def test_an_agent_is_frozen_and_knows_its_tools() -> None:
    """Nothing can be changed after the definition, not even through the list that was given."""
    tools: list[Tool] = [look, pay]
    agent = Agent("a", "Do.", tools=tools)
    tools.clear()
    assert agent.tool("look") is look
    assert (agent.blocks("look"), agent.blocks("pay"), agent.blocks("unknown")) == (True, False, True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        agent.name = "b"  # type: ignore[misc]


def test_what_no_checkpoint_names_says_truly_why_it_runs() -> None:
    """`signoff check` calls neither an author's own step nor a handing down read-only."""
    below = Agent("below", "Do.", tools=[look])
    explained = [explain(Policy(), each.traits) for each in (StepTool.of(undecorated), below.as_tool())]
    assert explained == [
        "undecorated: runs, because it is a plain step",
        "below: runs, because it only delegates a task",
    ]


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        ({"name": "two words"}, "a name has"),
        ({"instructions": " "}, "instructions must not be empty"),
        ({"inputs": {"type": "string"}}, "inputs must be a JSON schema"),
        ({"tools": [undecorated]}, "undecorated is not a tool; put @tool above"),
        ({"tools": [look, look]}, 'two tools are named "look"'),
        ({"max_steps": 0}, "max_steps"),
        ({"version": ""}, "version"),
    ],
)
def test_a_definition_that_cannot_work_is_refused(definition: dict[str, object], words: str) -> None:
    """Each mistake is named when the agent is defined."""
    with pytest.raises((TypeError, ValueError), match=words):
        Agent(**{"name": "a", "instructions": "Do.", **definition})  # type: ignore[arg-type]


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("one_of_two", "two_of_two", "broken_agents"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_agents_are_collected_from_modules(modules: Path) -> None:
    """Every Agent at the top level of a named module is served; the same one through two modules is one."""
    (modules / "one_of_two.py").write_text(
        "from signoff import Agent\na = Agent('a', 'x')\nb = Agent('b', 'x')\n"
    )
    (modules / "two_of_two.py").write_text("from one_of_two import a\n")
    registry = load_agents(["one_of_two", "two_of_two"])
    assert [agent.name for agent in registry] == ["a", "b"]
    assert registry.find("c") is None


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            "import nowhere_to_be_found",
            "cannot import broken_agents: ModuleNotFoundError: .*broken_agents.py:1",
        ),
        ("x = 1 +", r"cannot import broken_agents: SyntaxError: invalid syntax \(.*broken_agents.py:1\)"),
        ("\n1 / 0", "ZeroDivisionError: division by zero .*:2"),
        ("x = 1", "broken_agents has no Agent"),
        (
            "from signoff import Agent\na = Agent('a', 'x')\nb = Agent('a', 'y')",
            'two agents of broken_agents are named "a"',
        ),
        (
            "from signoff import tool\n@tool\ndef f(a): ...",
            'TypeError: @tool f: parameter "a".*broken_agents.py:2',
        ),
    ],
)
def test_a_module_that_cannot_be_loaded_is_one_clear_line(modules: Path, source: str, words: str) -> None:
    """Whatever is wrong with a named module, the error is one line with module, reason and place."""
    (modules / "broken_agents.py").write_text(source)
    with pytest.raises(LoadError, match=words) as failed:
        load_agents(["broken_agents"])
    assert "\n" not in str(failed.value)


def test_a_missing_module_is_named() -> None:
    """A module that does not exist is said to be missing."""
    with pytest.raises(LoadError, match=r"cannot import no\.such: no such module"):
        load_agents(["no.such"])


def test_a_registry_refuses_two_of_one_name() -> None:
    """Two different agents cannot share a name."""
    with pytest.raises(LoadError):
        Registry([Agent("a", "x"), Agent("a", "y")])
