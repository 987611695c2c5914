"""The pages about security name tests, numbers and mechanisms; this finds each of them."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.runtime.judging import programs
from agent.usecases import sessions
from signoff import description
from slackbot.cli import keys
from slackbot.masking import secret_finder, tokens
from slackbot.service import probe_write, scheduler
from slackbot.slack import signed_http
from slackbot.slack_api.directory import Directory
from slackbot.web.auth import sign_in_state
from slackbot.web.http import late_refusals
from slackbot.web.http.bodies import MAX_BODY_BYTES, MAX_VALUES
from slackbot.web.http.connections import ConnectionLimits
from slackbot.web.http.context import MAX_EXCHANGES

ROOT = Path(__file__).parents[2]
PAGES = ("security.md", "promises.md", "promises-service.md", "secrets.md", "standards.md")
TEXT = " ".join(word for page in PAGES for word in (ROOT / "docs" / page).read_text(encoding="utf-8").split())

_COUNTED = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_TESTS = re.compile(r"`[\w/]*(?:::test_\w+|\.py)`")

_NAMED = re.compile(r"`(?:tests/)?((?:unit|integration|e2e|stress)/[\w/]+\.py)?(?:::(test_\w+))?`")


@cache
def functions_of(path: str) -> set[str]:
    module = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    return {node.name for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize(
    ("page", "least"),
    [
        ("promises.md", 60),
        ("promises-service.md", 40),
        ("standards.md", 30),
        ("secrets.md", 0),
        ("ten-ways.md", 15),
    ],
)
def test_every_test_that_a_page_names_is_there(page: str, least: int) -> None:
    """A promise without its test would be a claim; `::test_x` is in the file that was named before it."""
    named, path = 0, ""
    for line in (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines():
        for file, test in _NAMED.findall(line):
            path = file or path
            assert not file or (ROOT / "tests" / file).is_file(), file
            assert not test or test in functions_of(path), f"{path}::{test}"
            named += bool(test)
    assert named > least


def test_each_of_the_ten_ways_has_a_report_and_a_test() -> None:
    """Each way to fail is somebody's public report, and each answer is shown by a test."""
    ways = (ROOT / "docs" / "ten-ways.md").read_text(encoding="utf-8").split("\n## ")[1:-1]
    assert [way.partition(".")[0] for way in ways] == [str(number) for number in range(1, 11)]
    assert [way for way in ways if not re.search(r"\(https://github\.com/\S+/(issues|pull)/\d+\)", way)] == []
    assert [way for way in ways if not any(file for file, _ in _NAMED.findall(way))] == []


def test_every_number_of_the_pages_is_that_of_the_code() -> None:
    """Limits, times and sizes that the pages promise are those in force by default."""
    limits = ConnectionLimits()
    per_minute = inspect.signature(keys.create).parameters["per_minute"].default
    promised = [
        f"Headers are limited to {limits.head_bytes >> 10} KiB and {limits.head_seconds:g} s",
        f"a body to {MAX_BODY_BYTES >> 20} MiB, {limits.body_seconds:g} s and {MAX_VALUES:,} JSON values",
        f"reads nothing of a response for {limits.unread:g} s",
        f"When more than {limits.half_read} connections are half read",
        f"at most {_COUNTED[signed_http.MAX_AGE // 60]} minutes old",
        f"calls per minute ({per_minute} by default)",
        f"{programs.MAX_WAITING:,} waiting requests and {programs.MAX_WAITING_BYTES >> 20} MiB of them per key",
        f"look-ups are cached for at most {_default(Directory, 'max_age'):g} s",
        f"for {_COUNTED[sign_in_state.LIFE // 60]} minutes; at most {_COUNTED[MAX_EXCHANGES]} token exchanges at once",
        f"a test write every {probe_write.PACE:g} s",
        f"{_COUNTED[scheduler.KEEPS_FAILING]} failures running",
        f"cut at {description.MAX_QUOTED} characters",
        f"up to {description.MAX_STORED_VALUE} characters each ({description.MAX_STORED:,} in all)",
        f"at most {_COUNTED[tokens._READABLE]} characters",
        f"One-time links that live {_COUNTED[sessions.LINK_LIFE.seconds // 60]} minutes",
    ]
    assert secret_finder.BUDGET == 0.5, "half a second; twice that for a card"
    assert late_refusals.PAUSE == 0.25, "a quarter of a second"
    assert [each for each in promised if each not in TEXT] == []


def test_every_name_of_the_pages_is_one_of_the_code() -> None:
    """A class, a function, a setting, a metric or a column that a page gives as a mechanism exists."""
    source = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("signoff", "agent", "slackbot", "alembic/sql", "deploy/monitoring")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".sql", ".yaml")
    )
    words = set(re.findall(r"\w+", source + (ROOT / "manifest.yml").read_text(encoding="utf-8")))
    named = set(re.findall(r"`([A-Za-z]\w*(?:_\w+|[a-z][A-Z]\w*))`", _TESTS.sub("", TEXT)))
    assert len(named) > 30
    assert sorted(named - words) == []


def test_every_scope_has_its_reason() -> None:
    """The table of scopes is that of the app's manifest."""
    table = TEXT.partition("## Why each scope is asked for")[2].partition("## ")[0]
    named = re.findall(r"`([a-z_]+:[a-z]+)`", table.partition("There is no scope")[0])
    manifest = yaml.safe_load((ROOT / "manifest.yml").read_text(encoding="utf-8"))
    simple = {"commands"}
    assert sorted({*named, *simple}) == sorted(manifest["oauth_config"]["scopes"]["bot"])


def _default(owner: type, name: str) -> Any:
    return inspect.signature(owner).parameters[name].default
