"""Keep everything in a coding agent's settings but our hook."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signoff.errors import SignoffError
from signoff.gate.coding_agents import AGENTS, Name

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

_CURSOR_FILE_TOOLS = ("Write", "StrReplace", "Edit", "Delete")


@dataclass(frozen=True)
class HookSettings:
    agent: Name
    match: str
    seconds: int
    user: bool

    def install(self) -> Iterator[str]:
        """Describe the change. Raises SignoffError."""
        before = self._read()
        after = self._with_hook(before)
        if after != before:
            self._write(after)
        done = "has the hook already" if after == before else "now has the hook"
        asks = f"{AGENTS[self.agent].title} asks people before {self.match}, for up to {self.seconds} s"
        yield f"{self.path} {done}: {asks}."
        yield f"It needs SIGNOFF_URL and SIGNOFF_KEY_FILE in its environment. {NEXT[self.agent]}"

    def uninstall(self) -> Iterator[str]:
        """Describe the change. Raises SignoffError."""
        before = self._read()
        after = self._without_hook(before)
        if after != before:
            self._write(after)
        yield f"{self.path} {'no longer has' if after != before else 'does not have'} the hook."

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
        return f"{self._ours} --match {shlex.quote(self.match)} --timeout {self.seconds}s || {FAILED}"

    # --- parts -------------------------------------------------------------------------------------------------

    @property
    def _ours(self) -> str:
        return f"signoff hook {self.agent}"

    def _entries(self) -> dict[str, list[dict[str, Any]]]:
        limit = self.seconds + MARGIN
        if self.agent is not Name.CURSOR:
            run: dict[str, Any] = {"type": "command", "command": self.command, "timeout": limit}
            if self.agent is Name.CLAUDE:
                run["onFailure"] = "block"  # since version 2.1.295
            return {"PreToolUse": [{"matcher": f"^({self.match})$", "hooks": [run]}]}
        entry = {"command": self.command, "timeout": limit, "failClosed": True}
        events = {"beforeShellExecution": [entry], "beforeMCPExecution": [entry]}
        if tools := [tool for tool in _CURSOR_FILE_TOOLS if re.fullmatch(self.match, tool)]:
            events["preToolUse"] = [entry | {"matcher": "|".join(tools)}]
        return events

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
