"""The integrations where their frameworks are not installed."""

from __future__ import annotations

import importlib
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "framework", "extra"),
    [
        ("agno", "agno", "agno"),
        ("mcp", "mcp", "mcp"),
        ("openai_agents", "agents", "openai-agents"),
        ("pydantic_ai", "pydantic_ai", "pydantic-ai"),
    ],
)
def test_without_its_framework_an_integration_says_what_to_install(
    module: str, framework: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An integration without its framework is an ImportError that names the extra."""
    monkeypatch.delitem(sys.modules, f"signoff.integrations.{module}", raising=False)
    for name in [each for each in sys.modules if each.split(".")[0] == framework]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, framework, None)
    with pytest.raises(ImportError) as raised:
        importlib.import_module(f"signoff.integrations.{module}")
    assert f"pip install '.[{extra}]'" in str(raised.value)
