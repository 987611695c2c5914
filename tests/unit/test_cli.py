"""The command line's front: what it says of its commands, and how little it needs to say it."""

from __future__ import annotations

import os
import subprocess
import sys
from inspect import cleandoc
from pathlib import Path

import pytest

from signoff.gate import command_line
from slackbot.cli import COMMANDS, main, opened

ASK = """
import sys
from slackbot.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code
    print(*{name.partition(".")[0] for name in sys.modules}, file=sys.stderr)
"""
HEAVY = {"alembic", "fastapi", "openai", "psycopg", "slack_bolt", "slack_sdk", "sqlalchemy", "structlog"}


@pytest.mark.parametrize(
    ("arguments", "says", "more"),
    [
        (
            "--help",
            "Ask people, and run a command only if they approve",
            {"pydantic", "httpx2"},
        ),
        ("--version", "signoff", {"pydantic", "httpx2"}),
        ("gate --help", "the command has not run", set()),
    ],
)
def test_help_is_there_at_once(arguments: str, says: str, more: set[str]) -> None:
    """Help and version import nothing that only a service needs, nor does the gate, which scripts often call."""
    command = [sys.executable, "-c", ASK, *arguments.split()]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert says in " ".join(said.stdout.split())
    assert not (HEAVY | more) & set(said.stderr.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_itself(name: str) -> None:
    """A command is in the list by the first sentence of its own help."""
    own = cleandoc(opened(name).help).split("\n\n", maxsplit=1)[0]
    assert " ".join(own.split()) == COMMANDS[name][1]


@pytest.mark.parametrize("name", [*COMMANDS, "signoff-client"])
def test_help_wraps_at_the_width_of_the_terminal(name: str) -> None:
    """Only paragraphs are kept from a docstring, not where its lines end in the source."""
    commands = [command_line.command if name == "signoff-client" else opened(name)]
    while commands:
        command = commands.pop()
        assert "\n" not in command.help.replace("\n\n", "")
        commands += getattr(command, "commands", {}).values()


@pytest.mark.parametrize(
    ("arguments", "option"),
    [("gate --action a --lease 3x -- true", "--lease"), ("runs --since seven", "--since")],
)
def test_a_time_that_is_none_is_refused_by_its_options_name(
    arguments: str, option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of several options with a time, the message says which one is meant."""
    monkeypatch.setattr(sys, "argv", ["signoff", *arguments.split()])
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert f"Invalid value for {option}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "completed"), [("signoff re", "retention"), ("signoff runs --st", "--status")]
)
def test_a_shell_can_complete_commands_and_their_options(
    typed: str, completed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`signoff --install-completion` also completes the options of commands that are imported on use."""
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1), "_TYPER_COMPLETE_ARGS": typed}
    for name, value in {"_SIGNOFF_COMPLETE": "complete_bash", **words}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["signoff"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(SystemExit):
        main()
    assert completed in capsys.readouterr().out.split()


def test_the_gate_prints_no_secret(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the gate says is masked like every line of the service, though it lives below the masking."""
    token = f"ghp_{'a1B2' * 9}"
    monkeypatch.setattr(sys, "argv", ["signoff", "gate", "--action", "deploy", "--", token])
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(SystemExit) as end:
        main()
    said = capsys.readouterr().err
    assert (end.value.code, token in said) == (127, False)
    assert "nobody was asked" in said


@pytest.mark.parametrize("name", COMMANDS)
def test_an_argument_that_cannot_be_stored_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bytes that are not UTF-8 in an argument of any command: one line that shows it, and exit code 2."""
    monkeypatch.setattr(sys, "argv", ["signoff", name, os.fsdecode(b"caf\xe9")])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "signoff: the argument 'caf\\udce9' is not valid UTF-8, so it cannot be stored\n"


@pytest.mark.parametrize(
    "arguments",
    [
        "policy apply nowhere.toml",
        "check replay --policy nowhere.toml",
        "check explain --action a --policy nowhere.toml",
    ],
)
def test_a_file_that_is_missing_is_no_fault_of_a_setting(
    arguments: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the file is named on the command line, the message says so, and not SIGNOFF_CHECKPOINTS."""
    monkeypatch.setattr(sys, "argv", ["signoff", *arguments.split()])
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "'nowhere.toml' does not exist" in said
    assert "SIGNOFF_CHECKPOINTS" not in said
