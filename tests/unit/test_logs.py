"""Log lines: what people and models write stays inside its own line."""

from __future__ import annotations

import errno
import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from slackbot.service import logs
from slackbot.settings import Role

HOSTILE = "no\n2026-01-01 [info] approved by everybody\x1b[2J\u202e\r"


@pytest.fixture
def _untouched() -> Iterator[None]:
    """Logging as it was before, for the tests after this one."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.mark.usefixtures("_untouched")
@pytest.mark.parametrize("form", ["text", "json"])
def test_hostile_text_forges_no_line(capsys: pytest.CaptureFixture[str], form: str) -> None:
    """Line breaks and terminal controls in an event or a value are shown, not obeyed; three events, three lines."""
    logs.configure("INFO", form)
    structlog.get_logger("signoff").info(HOSTILE, action="x")
    structlog.get_logger("signoff").info("event", action="x", because=HOSTILE)
    logging.getLogger("library").warning("said %s", HOSTILE)
    written = capsys.readouterr().err
    assert len(written.splitlines()) == 3
    assert not {"\x1b", "\r", "\u202e"} & set(written)
    if form == "json":
        assert json.loads(written.splitlines()[0])["event"] == HOSTILE


@pytest.mark.usefixtures("_untouched")
def test_a_traceback_keeps_its_lines_and_loses_its_controls(capsys: pytest.CaptureFixture[str]) -> None:
    """The lines of a traceback stay readable, and an exception's text moves no cursor."""
    logs.configure("INFO", "text")
    try:
        raise ValueError(HOSTILE)  # noqa: TRY301 - only to have a traceback
    except ValueError:
        structlog.get_logger("signoff").exception("failed", action="x")
    written = capsys.readouterr().err
    assert "Traceback (most recent call last):\n" in written
    assert not {"\x1b", "\r", "\u202e"} & set(written)


@pytest.mark.usefixtures("_untouched")
def test_values_are_written_as_people_read_them(capsys: pytest.CaptureFixture[str]) -> None:
    """No line shows what only Python writes: lists are words, enumerations their values, and None is left out."""
    logs.configure("INFO", "text")
    roles = [Role.SCHEDULER, Role.WEB]
    structlog.get_logger("signoff").info("started", action="x", roles=roles, health_port=None, port=8080)
    written = capsys.readouterr().err
    assert "roles='scheduler web'" in written
    assert "port=8080" in written
    assert not any(each in written for each in ("None", "Role", "<", "health_port"))


@pytest.mark.usefixtures("_untouched")
def test_a_log_that_cannot_be_written_stops_nothing() -> None:
    """A full disk or a closed terminal costs the line, and raises nothing where it was logged."""
    logs.configure("INFO", "text")
    [handler] = logging.getLogger().handlers
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(_Full())
    structlog.get_logger("signoff").info("event", action="x")


class _Full(io.StringIO):
    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")
