"""The Python that workers are forked from."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.warm_python import BrokenModules


@pytest.mark.parametrize("outcome", ["failed", "passed"])
def test_workers_import_again_what_could_not_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    """A module whose import failed is not left half loaded, or its worker would run half of its tests and be green."""
    module = ModuleType("half_loaded")
    module.__file__ = str(tmp_path / "test_half.py")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    report = pytest.CollectReport(module.__file__, outcome, None, [])  # type: ignore[arg-type]
    BrokenModules().pytest_collectreport(report)
    assert (module.__name__ in sys.modules) is (outcome == "passed")
