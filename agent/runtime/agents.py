"""Agents as values in modules, and the registry of those that a process serves."""

import ast
import importlib
import inspect
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Self

from agent.domain.judgement import ToolTraits
from agent.domain.rules import Rule
from agent.domain.spelling import meant
from agent.runtime.tool import Tool
from signoff.errors import SignoffError
from signoff.values import Action, Risk

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")  # one word: people type it after `/agent run`


class LoadError(SignoffError):
    """Names the module and the reason."""


@dataclass(frozen=True)
class Agent:
    """An agent, as a value at module level; `SIGNOFF_AGENTS` names the modules to search.

    `model`: None for the service's own. `max_steps` limits the model turns since a person last wrote, `max_tokens` the
    tokens of a whole run, prompts included, and `max_seconds` the time since a person last wrote, without time spent
    waiting for people. A run that reaches a limit fails; resuming it starts the limits over. `concurrency` limits the
    calls that run at the same time in a process, or with `across_processes` in the whole installation; other calls
    wait. Change `version` when the agent's meaning changes: what people approved under another version and has not
    begun is asked again.

    `description` tells people what the agent is for. `inputs`, a JSON schema of an object, is the form that people fill
    in; their entries are appended to the task.

    Raises TypeError or ValueError for an invalid definition.
    """

    name: str
    instructions: str
    tools: Sequence[Tool] = ()
    model: str | None = None
    version: str = "1"
    max_steps: int = 20
    max_tokens: int = 200_000
    max_seconds: float = 24 * 3600.0
    concurrency: int | None = None
    across_processes: bool = False
    description: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict, hash=False)
    _by_name: Mapping[str, Tool] = field(init=False, repr=False, compare=False)

    def __new__(cls, *_: Any, **options: Any) -> Self:
        known = {each.name for each in fields(cls) if each.init}
        for given in options.keys() - known:
            raise TypeError(f'Agent: unknown option "{given}"{meant(given, known)}')
        return super().__new__(cls)

    def __post_init__(self) -> None:
        title = f"Agent {self.name!r}"
        if not _NAME.match(self.name):
            raise ValueError(f'{title}: a name has 1 to 64 letters, digits, "_" or "-", and no space')
        if not self.instructions.strip():
            raise ValueError(f"{title}: instructions must not be empty")
        if not self.version:
            raise ValueError(f"{title}: version must not be empty")
        self._check_limits(title)
        if self.inputs and not isinstance(self.inputs.get("properties"), Mapping):
            raise ValueError(f'{title}: inputs must be a JSON schema of an object, with "properties"')
        by_name: dict[str, Tool] = {}
        offered: object = self.tools
        if not isinstance(offered, Sequence):
            raise TypeError(f"{title}: tools must be a list, such as [{getattr(offered, 'name', 'my_tool')}]")
        for tool in offered:
            if not isinstance(tool, Tool):
                shown = getattr(tool, "__name__", repr(tool))
                if isinstance(tool, Agent):
                    raise TypeError(f"{title}: {tool.name} is an agent; pass it as {tool.name}.as_tool()")
                raise TypeError(f"{title}: {shown} is not a tool; put @tool above its definition")
            if tool.name in by_name:
                raise ValueError(
                    f'{title}: two tools are named "{tool.name}"; give one of them another with @tool(name="…")'
                )
            by_name[tool.name] = tool
        object.__setattr__(self, "tools", tuple(self.tools))
        object.__setattr__(self, "_by_name", MappingProxyType(by_name))

    def as_tool(
        self,
        *,
        name: str = "",
        description: str = "",
        requires_approval: bool = False,
        risk: Risk | str | None = None,
        background: bool = False,
    ) -> Tool:
        """This agent as a tool of another one. Each call is its own run, and needs approval if a checkpoint or the tool
        says so. `background`: the calling model goes on at once, and reads the answer in a later note.
        """
        return Delegate(
            _delegate_tool,
            name=name or self.name,
            description=description or self.description or f"Delegate a task to the agent {self.name}.",
            requires_approval=requires_approval,
            risk=risk,
            read_only=True,
            background=background,
            version=self.version,
            agent=self,
        )

    def _check_limits(self, title: str) -> None:
        if self.max_steps < 1 or self.max_tokens < 1 or not self.max_seconds > 0:
            raise ValueError(f"{title}: max_steps and max_tokens must be at least 1, max_seconds more than 0")
        if self.concurrency is not None and self.concurrency < 1:
            raise ValueError(f"{title}: concurrency must be at least 1")
        if self.across_processes and self.concurrency is None:
            raise ValueError(f"{title}: across_processes needs a concurrency")

    def tool(self, name: str) -> Tool | None:
        return self._by_name.get(name)

    def blocks(self, tool: str) -> bool:
        """An unknown tool is answered in its turn."""
        found = self.tool(tool)
        return found is None or not found.background


@dataclass(frozen=True, eq=False)
class Delegate(Tool):
    """An agent as a tool (`Agent.as_tool`). It has no effect of its own, so it is never in doubt."""

    agent: Agent | None = None

    @property
    def traits(self) -> ToolTraits:
        return replace(super().traits, exempt="only delegates a task")

    def terms(self, rule: Rule, action: Action) -> Rule:  # noqa: ARG002
        """No grants: the other agent's calls are evaluated one by one."""
        return rule.model_copy(update={"allow_grants": False}) if rule.allow_grants else rule


def _delegate_tool(task: str) -> str:  # noqa: ARG001
    """Delegate a task.

    Args:
        task: What to do, with everything that is needed for it.
    """
    raise RuntimeError("the service runs an agent used as a tool; it cannot be called")


class Registry:
    """Includes agents to whom served agents delegate. Raises LoadError for duplicate names."""

    def __init__(self, agents: Iterable[Agent] = ()) -> None:
        self._agents: dict[str, Agent] = {}
        for agent in agents:
            self._add(agent)

    def _add(self, agent: Agent) -> None:
        if self._agents.setdefault(agent.name, agent) is not agent:
            raise LoadError(f'two agents are named "{agent.name}"')
        for tool in agent.tools:
            if isinstance(tool, Delegate) and tool.agent is not None:
                self._add(tool.agent)

    def find(self, name: str) -> Agent | None:
        return self._agents.get(name)

    def __iter__(self) -> Iterator[Agent]:
        return iter(self._agents.values())

    def __len__(self) -> int:
        return len(self._agents)


def load_agents(modules: Sequence[str]) -> Registry:
    """Import the modules and collect their top-level `Agent`s. LoadError, also for duplicate names."""
    found: dict[str, tuple[Agent, str]] = {}
    for name in modules:
        module = _import(name)
        agents = {key: value for key, value in vars(module).items() if isinstance(value, Agent)}
        if not agents:
            raise LoadError(f"{name} has no Agent at its top level{_found_elsewhere(name, module)}")
        for variable, agent in agents.items():
            known, where = found.setdefault(agent.name, (agent, name))
            if known is not agent:
                whose = f"of {name}" if where == name else f"({where}, {name})"
                place = _place_of(module, variable)
                raise LoadError(f'two agents {whose} are named "{agent.name}"; rename this one{place}')
    return Registry(agent for agent, _ in found.values())


def _is_in_module(filename: str) -> bool:
    machinery = (Path(__file__).parent, Path(importlib.__file__).parent)
    return filename.endswith(".py") and Path(filename).parent not in machinery


def _import(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise LoadError(f'"{name}" is not the name of a module (write my_agents for the file my_agents.py)')
    try:
        return importlib.import_module(name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            hint = " (write it without .py)" if name.endswith(".py") else ""
            raise LoadError(
                f"cannot import {name}: no such module in this directory or on Python's path{hint}"
            ) from None
        reason = " ".join(str(error.msg if isinstance(error, SyntaxError) else error).split())
        raise LoadError(f"cannot import {name}: {type(error).__name__}: {reason}{_place(error)}") from error


def _place(error: Exception) -> str:
    """` (my_agents.py:57)`: where the user's code failed; empty if elsewhere."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({_shown(error.filename)}:{error.lineno})"
    passed = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_in_module(frame.filename)]
    return f" ({_shown(passed[-1].filename)}:{passed[-1].lineno})" if passed else ""


def _place_of(module: ModuleType, variable: str) -> str:
    """Where the module last makes it; empty if it only imports it."""
    try:
        statements = ast.parse(inspect.getsource(module)).body
    except (OSError, SyntaxError):
        return ""
    lines = [each.lineno for each in statements if _makes(each, variable)]
    return f" ({_shown(module.__file__ or '')}:{lines[-1]})" if lines else ""


def _makes(statement: ast.stmt, variable: str) -> bool:
    match statement:
        case ast.Assign(targets=targets):
            return any(isinstance(each, ast.Name) and each.id == variable for each in targets)
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.AsyncFunctionDef(name=name):
            return name == variable
        case _:
            return False


def _shown(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _found_elsewhere(name: str, module: ModuleType) -> str:
    """The imported file, and advice if it hides one of the current directory."""
    found, own = Path(module.__file__ or ""), Path(*name.split(".")).with_suffix(".py")
    if own.exists() and not found.samefile(own):
        return (
            f": {found} was imported, which hides your {own}; rename your file, for example to my_{own.name}"
        )
    return f" ({_shown(str(found))})" if module.__file__ else ""
