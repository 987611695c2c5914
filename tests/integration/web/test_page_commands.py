"""The commands of the documentation run: `signoff …` and `curl …` from each page, against one service."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog

from slackbot import cli
from tests.doc_blocks import SHELL, Block, blocks
from tests.integration.service.conftest import NO_TLS
from tests.integration.web.living import Living, living

NOT_RUN = {
    "make demo": "the demo in a browser is `make e2e`",
    "make test": "this is one of the tests that it runs",
    "make check": "the checks run beside the tests in CI",
    "make bench": "an hour of measurements",
    "python -m benchmarks": "the same",
    "pip install": "needs a package registry; `test_light_distribution.py` looks at what would be installed",
    "claude": "needs an account with Anthropic",
    "docker": "needs Docker",
    "grep": "reads the files of the checkout",
    "mkdir app": "belongs to the commands for Docker",
    "cp app/.env.example app/.env": "belongs to the commands for Docker",
    "signoff demo": "runs until it is stopped; `make e2e` opens it in a browser",
    "signoff serve": "runs until it is stopped; the service of this test is one",
    "python deploy.py": "waits for people; `test_waiting_programs.py` runs the page's program",
    "signoff gate": "waits for people; `test_gate.py` runs the page's commands",
}
"""Beginnings of commands that do not run here, each with the reason."""

POLICY = "docs/policy-apply.md"

_CAPTURED = re.compile(r"export (\w+)=\$\((.+)\)\Z")
_VARIABLE = re.compile(r"\$(\w+)")
_PLACEHOLDERS = ("AGENT_ID", "RUN_ID", "TOOL_CALL_ID")


def reason_not_to_run(line: str) -> str | None:
    """Why this command does not run here; None if it does."""
    return next((why for begins, why in NOT_RUN.items() if _bare(line).startswith(begins)), None)


def _bare(line: str) -> str:
    """A command without settings in front of it, and without where the program is."""
    return re.sub(r"^([A-Z_]+=\S+ )*(\.venv/bin/)?", "", line)


@dataclass
class Terminal:
    """A folder and an environment in which commands run, one after the other, as somebody types them."""

    service: Living
    folder: Path
    capture: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch
    known: dict[str, str] = field(default_factory=dict)
    """What stands for the placeholders of the pages: the ids of the latest answers."""

    async def type(self, line: str) -> str:
        """Run this command; returns what it prints. Fails unless it succeeds."""
        if captured := _CAPTURED.match(line):
            printed = await self.type(captured[2])
            self.monkeypatch.setenv(
                captured[1], next(each for each in printed.split() if each.startswith("signoff_"))
            )
            return printed
        words = shlex.split(line, comments=True)
        while words and re.match(r"[A-Z_]+=", words[0]):
            self.monkeypatch.setenv(*words.pop(0).split("=", 1))
        program, *arguments = words
        if program == "cd":
            self.monkeypatch.chdir(arguments[0])
            return ""
        if program == ".":  # the virtual environment of these tests
            return ""
        if program == "export":
            for each in arguments:
                self.monkeypatch.setenv(*each.split("=", 1))
            return ""
        if program == "curl":
            return await self._curl(arguments)
        assert program in ("signoff", ".venv/bin/signoff"), line
        return await asyncio.to_thread(self._signoff, arguments)

    def _signoff(self, arguments: list[str]) -> str:
        self.capture.readouterr()
        with self.monkeypatch.context() as patched:
            patched.setattr(sys, "argv", ["signoff", *arguments])
            patched.setattr(sys, "path", list(sys.path))
            try:
                cli.main()
                status: Any = 0
            except SystemExit as end:
                status = end.code
        said = self.capture.readouterr()
        assert not status, said.out + said.err
        return said.out

    async def _curl(self, arguments: list[str]) -> str:
        """The few options of curl that the pages use."""
        method, headers, content, form, url, stream = "GET", {}, None, {}, "", False
        given = iter(arguments)
        for each in given:
            match each:
                case "-X":
                    method = next(given)
                case "-H":
                    name, _, value = self._filled(next(given)).partition(": ")
                    headers[name] = value
                case "-d":
                    content = self._filled(next(given))
                case "-F":
                    name, _, value = self._filled(next(given)).partition("=")
                    form[name] = (None, value)
                case "-sS":
                    pass
                case "-sSN":
                    stream = True
                case _:
                    assert not each.startswith("-"), each
                    url = self._filled(each).replace("http://127.0.0.1:8080", self.service.url)
        sent: dict[str, Any] = {"headers": headers, "content": content, "files": form or None}
        async with httpx.AsyncClient(timeout=60, trust_env=False, verify=NO_TLS) as client:
            if stream:
                async with client.stream(method, url, **sent) as opened:
                    assert opened.status_code == 200, await opened.aread()
                    return ""
            answer = await client.request(method, url, **sent)
            while answer.status_code == 409 and url.endswith("/respond"):  # it works and has not asked yet
                answer = await client.request(method, url, **sent)
        assert answer.is_success, answer.text
        self._note(answer.json())
        return answer.text

    def _filled(self, text: str) -> str:
        for name in _PLACEHOLDERS:
            text = text.replace(name, self.known.get(name, name))
        return _VARIABLE.sub(lambda found: self._environment(found[1]), text)

    def _environment(self, name: str) -> str:
        return os.environ[name]

    def _note(self, answer: Any) -> None:
        if isinstance(answer, dict):
            found = answer | (answer.get("tools") or [{}])[0]
            self.known |= {name: str(found[name.lower()]) for name in _PLACEHOLDERS if name.lower() in found}


@pytest.fixture
async def terminal(
    database_url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Terminal]:
    """A service with its example agents, and a folder with its settings and a policy file."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    async with living(database_url) as service:
        for name, value in service.house.environment.items():
            monkeypatch.setenv(name, value)
        examples = ("data_manager", "durable_task")
        monkeypatch.setenv("SIGNOFF_AGENTS", ",".join(f"signoff_demo.examples.{each}" for each in examples))
        monkeypatch.setenv("SIGNOFF_MODEL", "signoff-scripted")
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.chdir(tmp_path)
        yield Terminal(service, tmp_path, capsys, monkeypatch)
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


async def test_every_command_of_the_pages_runs(terminal: Terminal) -> None:
    """Page by page, from top to bottom: each command ends well, or is named above with the reason why not."""
    for page, found in _pages().items():
        policies = [each.code for each in blocks(page) if each.language == "toml"]
        for name in ("checkpoints.toml", "new.toml") if page == POLICY else ():
            (terminal.folder / name).write_text(policies[0])
        terminal.monkeypatch.chdir(terminal.folder)
        for block in found:
            for line in block.commands:
                if reason_not_to_run(line) is None:
                    try:
                        await terminal.type(line)
                    except BaseException as error:
                        raise AssertionError(f"{block}: {line}\n{error}") from error
        for path in filter(Path.is_file, terminal.folder.iterdir()):
            path.unlink()


def test_no_reason_is_out_of_date() -> None:
    """Everything that is not run stands on some page."""
    lines = [_bare(line) for page in _pages().values() for block in page for line in block.commands]
    assert [begins for begins in NOT_RUN if not any(line.startswith(begins) for line in lines)] == []


def _pages() -> dict[str, list[Block]]:
    """The blocks with commands, by page; the page that puts another policy in force comes last."""
    found: dict[str, list[Block]] = {}
    for block in blocks():
        if block.language in SHELL:
            found.setdefault(block.page, []).append(block)
    return dict(sorted(found.items(), key=lambda each: each[0] == POLICY))
