"""A coding agent's permission rules, rebuilt as checkpoints (`docs/side-by-side.md`), at the agent's hook."""

from __future__ import annotations

from typing import Any

from tests import hook_events as events
from tests.doc_blocks import ROOT
from tests.hook_events import hook_input
from tests.integration.web.conftest import Program, Street
from tests.integration.web.shell import processes
from tests.integration.web.test_denials import apply
from tests.integration.web.test_hook import Hook, grace, hook

__all__ = ["grace", "hook", "processes"]

EXAMPLE = "examples/permission_list.toml"
MATCH = "Bash|Read|Edit|Write|Web.*|mcp__.*"
FOLDER = events.CLAUDE_BASH["cwd"]


async def test_the_rebuilt_list_lets_run_asks_and_denies(
    hook: Hook,
    grace: Program,
    site: Street,
) -> None:
    """What needs nobody is left to the agent, what is denied says why, and the rest runs once people approve it."""
    text = (ROOT / EXAMPLE).read_text(encoding="utf-8")
    await apply(site, text.replace("S0DEVELOPERS", "S0FINANCE").replace("S0PLATFORM", "S0FINANCE"))

    def call(tool: str, **given: Any) -> Any:
        return hook("claude", hook_input(events.CLAUDE_BASH, given, tool_name=tool), "--match", MATCH)

    assert await hook.answer(call("Bash", command="git status")) == {}
    assert await hook.answer(call("Read", file_path=f"{FOLDER}/src/app.py")) == {}
    for started, why in (
        (call("Bash", command="git status && sudo id"), "The machine itself is not yours to change"),
        (call("Read", file_path="/home/ada/.ssh/id_ed25519"), "Secrets are not for agents"),
    ):
        decision, reason, _ = await hook.claude(started)
        assert (decision, why in reason) == ("deny", True)
    assert await hook.statuses() == []
    waiting = call("Bash", command="git push origin main")
    await grace.decides(await hook.request())
    decision, _, _ = await hook.claude(waiting)
    assert decision == "allow"
