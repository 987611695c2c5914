"""Where program, data and migrations lie."""

import os
import tempfile
from pathlib import Path

import pytest

from agent.database import locations


def test_data_lies_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any setting, an ordinary user's data is in `.signoff` of the folder."""
    monkeypatch.delenv("SIGNOFF_HOME", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert locations.data_home(tmp_path) == tmp_path.resolve() / ".signoff"


def test_setting_overrides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`SIGNOFF_HOME` decides, for every caller."""
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "elsewhere"))
    assert locations.data_home(tmp_path) == tmp_path.resolve() / "elsewhere"


def test_root_leaves_a_private_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root's data for a folder closed to others lies below the state directory, one place per folder."""
    monkeypatch.delenv("SIGNOFF_HOME", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir(mode=0o700)
    assert locations.data_home(one).parent == locations.STATE
    assert locations.data_home(one) != locations.data_home(two)


def test_looking_changes_no_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deciding where data goes neither opens nor creates any folder."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    before = [step.stat().st_mode for step in (private, *private.parents)]
    locations.data_home(private / "deeper")
    assert [step.stat().st_mode for step in (private, *private.parents)] == before
    assert list(private.iterdir()) == []


@pytest.mark.parametrize(("mode", "expected"), [(0o755, True), (0o711, True), (0o750, False), (0o700, False)])
def test_one_closed_parent_closes(mode: int, expected: bool) -> None:
    """A folder is open only if others may pass through it and through every parent."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        door = Path(folder)
        (door / "inside").mkdir(mode=0o755)
        door.chmod(mode)
        assert locations.open_to_others(door / "inside") is expected
