"""What operators read: log lines of every origin, tracebacks, errors, the settings."""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections.abc import Iterator
from uuid import UUID

import pytest
import structlog

from slackbot import masking, settings
from slackbot.masking import clean_error, clean_now, guard_tracebacks, log_events
from slackbot.service import logs
from tests.planted import SECRETS, URL_PASSWORD

EVERY = "; ".join(SECRETS.values())
DSN = f"postgres://joe:{URL_PASSWORD}@db.example/shop"


def leaks(text: str) -> list[str]:
    """Which of the planted secrets can be read."""
    lines = {kind: value.split("\n")[-2 if "\n" in value else 0] for kind, value in SECRETS.items()}
    return [kind for kind, line in (lines | {"url": URL_PASSWORD}).items() if line[-16:] in text]


@pytest.fixture(params=["text", "json"])
def written(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    logs.configure("DEBUG", request.param)
    yield out
    structlog.reset_defaults()
    root.handlers[:], root.level = handlers, level


class Odd:
    """An object whose repr contains a secret."""

    def __repr__(self) -> str:
        return f"<Odd {DSN}>"


def test_events_of_structlog_are_cleaned(written: io.StringIO) -> None:
    """Message, values, nested values, keys, objects, and values under a secret's name."""
    structlog.get_logger("house").info(
        f"told {EVERY}",
        action="x.y",
        note={"deep": [DSN, Odd()]},
        password="hunter2",
        odd=Odd(),
        **{EVERY: 1},
    )
    assert leaks(written.getvalue()) == []
    assert "hunter2" not in written.getvalue()
    assert "redacted github-token, 40 characters" in written.getvalue()
    assert "x.y" in written.getvalue()


@pytest.mark.parametrize("name", ["run_id", "agent", "action", "status", "timestamp", "event"])
def test_names_of_ours_vouch_for_no_text(name: str) -> None:
    """Under the name of an id, only an id is shown without a search: a secret is masked there as anywhere else."""
    run = str(UUID(int=7))
    shown = masking.clean_event(None, "info", {"run_id": run, "level": "info", name: EVERY})
    assert leaks(str(shown)) == []
    assert shown.get("run_id") == run or name == "run_id"
    assert masking.clean_event(None, "info", {name: f"{run} {EVERY}"})[name].startswith(run)


def test_ids_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event of ids, times, numbers and known words is shown as it is, without a look for secrets."""
    event = {
        "action": "run.turn",
        "run_id": str(UUID(int=7)),
        "attempt": 1,
        "tokens": 10,
        "calls": [],
        "timestamp": "2026-01-01T00:00:00.000001Z",
    }
    assert masking.clean_event(None, "info", event) == event
    monkeypatch.setattr(log_events, "SecretFinder", None)
    assert masking.clean_event(None, "info", event) == event


def test_a_known_word_under_the_name_of_a_secret_is_masked() -> None:
    """``tokens`` may count them; a text there is masked, even one that was harmless under another name."""
    assert masking.clean_event(None, "info", {"event": "turn made"}) == {"event": "turn made"}
    assert "turn made" not in str(masking.clean_event(None, "info", {"tokens": "turn made"}))


def test_records_of_the_standard_library_are_cleaned(written: io.StringIO) -> None:
    """Arguments of the message included."""
    logging.getLogger("somebody.else").warning("told %s and %r", EVERY, Odd())
    assert "told" in written.getvalue()
    assert leaks(written.getvalue()) == []


def _fail_deep_inside(variable: str) -> None:
    try:
        int(EVERY)
    except ValueError as inner:
        raise RuntimeError(f"outer {DSN} {len(variable)}") from inner


def test_tracebacks_are_cleaned_and_show_no_locals(written: io.StringIO) -> None:
    """The exception's text, its cause, and what stood in variables."""
    try:
        _fail_deep_inside("only-in-" + "a-variable")
    except RuntimeError:
        logging.getLogger("somebody.else").exception("it failed")
        structlog.get_logger("house").exception("it failed too", action="x.failed")
    assert written.getvalue().count("RuntimeError: outer") == 2
    assert leaks(written.getvalue()) == []
    assert "only-in-a-variable" not in written.getvalue()


def test_payloads_are_not_logged_at_any_level(written: io.StringIO) -> None:
    """Libraries that print whole payloads at DEBUG stay quiet: a value may be secret by policy alone."""
    for name in (
        "openai._base_client",
        "slack_sdk.web",
        "slack_bolt.App",
        "slackbot.bolt",
        "httpx",
        "aiohttp",
    ):
        logging.getLogger(name).debug("payload of %s", name)
    logging.getLogger("slackbot.own").debug("ours")
    assert "payload" not in written.getvalue()
    assert "ours" in written.getvalue()


def test_tracebacks_that_nobody_catches_are_cleaned(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the main thread and in others."""
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    guard_tracebacks()

    def fail() -> None:
        raise ValueError(f"no {EVERY}")

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    try:
        fail()
    except ValueError as error:
        sys.excepthook(ValueError, error, error.__traceback__)
    printed = capsys.readouterr().err
    assert printed.count("ValueError: no ⟦redacted aws-key") == 2
    assert leaks(printed) == []


def test_errors_in_words() -> None:
    """Type and cleaned message."""
    assert clean_error(ValueError(f"at {DSN}")) == (
        "ValueError: at postgres://joe:⟦redacted url-password, 19 characters⟧@db.example/shop"
    )
    assert clean_error(ValueError()) == "ValueError"
    assert leaks(clean_now(EVERY)) == []


def test_a_short_error_is_shown_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of time, an error in one line is still searched, and shown without its secrets."""
    monkeypatch.setattr(log_events, "BUDGET", -1)
    token = f"ghp_{'a1B2' * 9}"
    shown = clean_now(f"the argument {token!r} is not valid UTF-8, so it cannot be stored")
    assert shown.endswith("is not valid UTF-8, so it cannot be stored")
    assert token not in shown


def test_an_action_is_shown_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of time, and beside texts that use up what is searched then, an event's own words are searched and shown."""
    monkeypatch.setattr(log_events, "BUDGET", -1)
    monkeypatch.setattr(log_events, "_harmless", set())
    token = f"ghp_{'a1B2' * 9}"
    notes = {f"note{number}": "word " * 300 for number in range(9)}
    ours = {"event": "request closed", "action": "request.approved", "status": "approved", "tool": "pay"}
    shown = masking.clean_event(
        None, "info", {**notes, **ours, "agent": f"refunds {token}", "late": "x" * 3000}
    )
    assert {name: shown[name] for name in ours} == ours
    assert token not in str(shown)
    assert shown["late"] == "⟦redacted not-scanned, 3,000 characters⟧"


def test_the_settings_show_no_secret() -> None:
    """Neither those that are secret by their type nor a password within an address."""
    configured = settings.read(
        {
            "DATABASE_URL": DSN,
            "SLACK_BOT_TOKEN": SECRETS["slack-bot"],
            "SLACK_APP_TOKEN": SECRETS["slack-app"],
            "SLACK_SIGNING_SECRET": "0123456789abcdef" * 2,
            "OPENAI_API_KEY": SECRETS["openai-project"],
            "OPENAI_BASE_URL": f"https://joe:{URL_PASSWORD}@model.example/v1",
            "SLACK_API_URL": f"https://joe:{URL_PASSWORD}@slack.example/api/",
        }
    )
    shown = f"{configured!r} {configured} {configured.model_dump_json()}"
    shown = shown.replace(configured.model_dump_json(), "")
    assert leaks(shown) == []
    assert "0123456789abcdef" not in shown
    assert "model.example" in shown
