"""What a start does not wait for."""

from __future__ import annotations

import re
from pathlib import Path

import agent
import slackbot

LATE = {"aiosmtplib", "alembic", "cel", "mcp", "openai", "yaml"}
"""Large libraries that a service needs later, if at all: together they would take half a second of each start."""

LOADED_LATE = {"doctor.py", "model_provider.py"}
"""What loads them, and is itself loaded when it is used."""

_LOADED = re.compile(r"^(?:import|from) (\w+)", re.MULTILINE)


def test_a_start_loads_no_library_that_it_does_not_need() -> None:
    """No module of the service loads them when it is loaded itself."""
    found = {
        f"{path.name}: {name}"
        for package in (agent, slackbot)
        for path in Path(package.__path__[0]).rglob("*.py")
        if path.name not in LOADED_LATE
        for name in _LOADED.findall(path.read_text(encoding="utf-8"))
        if name in LATE
    }
    assert found == set()
