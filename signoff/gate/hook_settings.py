"""Keep everything in a coding agent's settings but our hook."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signoff.errors import SignoffError
from signoff.gate.coding_agents import AGENTS, Name
from signoff.gate.unasked_calls import OTHER_TOOLS, PRIVATE, UNASKED

MARGIN = 30
"""Seconds that the agent waits beyond the hook's own wait for people."""

FAILED = "{ echo 'Signoff: the hook failed, so this call is not approved' >&2; exit 2; }"
"""Agents run the tool if a hook cannot start or dies. Exit code 2 with text on standard error denies it."""

FILES = {
    Name.CLAUDE: ("CLAUDE_CONFIG_DIR", ".claude", "settings.json"),
    Name.CODEX: ("CODEX_HOME", ".codex", "hooks.json"),
    Name.CURSOR: (None, ".cursor", "hooks.json"),
}
"""The variable that moves a user's settings, the folder, the file."""

NEXT = {
    Name.CLAUDE: "Restart running sessions to pick it up.",
    Name.CODEX: "Codex skips it until you trust it: start Codex and enter /hooks. Trust the project, too.",
    Name.CURSOR: "Restart Cursor if its settings do not show the hook.",
}

UNSEEN = (
    "what a script does that a command starts, tools that the provider runs, and what users type themselves"
)


@dataclass(frozen=True)
class HookSettings:
    """A coding agent's settings file, the user's or the project's, in which only our hook is changed."""

    agent: Name
    match: str | None
    seconds: int
    user: bool

    def install(self) -> Iterator[str]:
        """Describe the change. Raises SignoffError."""
        before = self._read()
        after = self._with_hook(before)
        if after != before:
            self._write(after)
        done = "has the hook already" if after == before else "now has the hook"
        what = "these calls" if self.match is None else f"calls of {self.match} only"
        asks = f"{AGENTS[self.agent].title} asks people before {what}, for up to {self.seconds} s"
        yield f"{self.path} {done}: {asks}."
        yield from self._coverage()
        yield f"It needs SIGNOFF_URL and SIGNOFF_KEY_FILE in its environment. {NEXT[self.agent]}"

    def uninstall(self) -> Iterator[str]:
        """Describe the change. Raises SignoffError."""
        before = self._read()
        after = self._without_hook(before)
        if after != before:
            self._write(after)
        yield f"{self.path} {'no longer has' if after != before else 'does not have'} the hook."

    def _coverage(self) -> Iterator[str]:
        tools = UNASKED[self.agent]
        if self.match is not None:
            yield "Asked: tools whose whole name matches. Leave --match out to be asked about unknown tools, too."
            yield f"Not asked: every other tool, whatever it does, and {UNSEEN}."
            return
        yield (
            "Asked: shell commands, MCP tools, web access, subagents, every tool that is not named below, and edits "
            f"outside the project or in {', '.join(PRIVATE)}, and in the hook's own program."
        )
        yield f"Not asked: reading ({', '.join(tools.read)}), talking to the user ({', '.join(tools.talk)}),"
        yield f"  edits of a file in the project ({', '.join(tools.edit)}); {UNSEEN}."

    def printed(self) -> Iterator[str]:
        """The file's new content. Raises SignoffError."""
        yield _text(self._with_hook(self._read()))

    @property
    def path(self) -> Path:
        variable, folder, name = FILES[self.agent]
        if not self.user:
            return Path(folder, name)
        moved = os.environ.get(variable) if variable else None
        return (Path(moved) if moved else Path.home() / folder) / name

    @property
    def command(self) -> str:
        """Without local paths: the file may be shared."""
        return self._command()

    def _command(self, *options: str) -> str:
        matched = [] if self.match is None else ["--match", shlex.quote(self.match)]
        return " ".join([self._ours, *matched, *options, "--timeout", f"{self.seconds}s", "||", FAILED])

    # --- parts -------------------------------------------------------------------------------------------------

    @property
    def _ours(self) -> str:
        return f"signoff hook {self.agent}"

    def _entries(self) -> dict[str, list[dict[str, Any]]]:
        """For every tool: which calls are asked about is decided in one place, by the hook."""
        limit = self.seconds + MARGIN
        if self.agent is not Name.CURSOR:
            run: dict[str, Any] = {"type": "command", "command": self.command, "timeout": limit}
            if self.agent is Name.CLAUDE:
                run["onFailure"] = "block"  # since version 2.1.295
            return {"PreToolUse": [{"matcher": ".*", "hooks": [run]}]}
        entry = {"command": self.command, "timeout": limit, "failClosed": True}
        others = entry | {"command": self._command(OTHER_TOOLS)}
        return {"beforeShellExecution": [entry], "beforeMCPExecution": [entry], "preToolUse": [others]}

    def _with_hook(self, settings: dict[str, Any]) -> dict[str, Any]:
        kept = self._without_hook(settings)
        hooks = dict(kept.get("hooks", {}))
        for event, added in self._entries().items():
            hooks[event] = [*hooks.get(event, []), *added]
        first = {"version": 1} if self.agent is Name.CURSOR else {}
        return first | kept | {"hooks": hooks}

    def _without_hook(self, settings: dict[str, Any]) -> dict[str, Any]:
        hooks = {}
        for event, entries in settings.get("hooks", {}).items():
            kept = [each for each in map(self._without_ours, entries) if each is not None]
            if kept or not entries:
                hooks[event] = kept
        rest = {name: value for name, value in settings.items() if name != "hooks"}
        return {**settings, "hooks": hooks} if hooks else rest

    def _without_ours(self, entry: Any) -> Any:
        """`None` if nothing else is left."""
        if not isinstance(entry, dict):
            return entry
        if self._is_ours(entry):
            return None
        runs = entry.get("hooks")
        if not isinstance(runs, list):
            return entry
        others = [each for each in runs if not self._is_ours(each)]
        return None if runs and not others else {**entry, "hooks": others}

    def _is_ours(self, run: Any) -> bool:
        command = run.get("command") if isinstance(run, dict) else None
        return isinstance(command, str) and f"{command} ".startswith(f"{self._ours} ")

    def _read(self) -> dict[str, Any]:
        try:
            settings = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise SignoffError(f"cannot read {self.path}: {error.strerror}") from None
        except ValueError as error:
            raise SignoffError(f"{self.path} is not JSON, so it is left as it is: {error}") from None
        hooks = settings.get("hooks", {}) if isinstance(settings, dict) else None
        if not isinstance(hooks, dict) or not all(isinstance(each, list) for each in hooks.values()):
            raise SignoffError(
                f"the `hooks` of {self.path} are not what is documented, so it is left as it is"
            )
        return dict(settings)

    def _write(self, settings: dict[str, Any]) -> None:
        """Atomic; symbolic links stay."""
        path = self.path.resolve()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
            whole = path.with_name(f".{path.name}.{os.getpid()}")
            whole.write_text(f"{_text(settings)}\n", encoding="utf-8")
            whole.chmod(mode)
            whole.replace(path)
        except OSError as error:
            raise SignoffError(f"cannot write {path}: {error.strerror}") from None


def _text(settings: dict[str, Any]) -> str:
    return json.dumps(settings, indent=2, ensure_ascii=False)
