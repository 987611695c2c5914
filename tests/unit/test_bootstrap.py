"""`bootstrap.py`: packages come from where the machine's owner has said, whichever program installs them."""

from __future__ import annotations

from importlib.metadata import distributions

import pytest
from packaging.specifiers import SpecifierSet

import bootstrap

SETTINGS = r"""
:env:.find-links='/wheels'
:env:.timeout='9'
freeze.index-url='http://127.0.0.1:4/simple'
global.cert='/etc/roots.pem'
global.extra-index-url='\nhttp://127.0.0.1:2/simple\nhttp://127.0.0.1:3/simple'
global.find-links='/elsewhere'
global.index-url='http://127.0.0.1:1/simple'
install.index-url='http://127.0.0.1:5/simple'
"""


def test_uv_takes_packages_from_where_pip_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the environment says counts before what is said of installing, and that before what is said of all."""
    monkeypatch.setattr(bootstrap, "run", lambda *_: SETTINGS)
    assert bootstrap.registry() == {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_DEFAULT_INDEX": "http://127.0.0.1:5/simple",
        "UV_INDEX": "http://127.0.0.1:2/simple http://127.0.0.1:3/simple",
        "UV_FIND_LINKS": "/wheels",
        "SSL_CERT_FILE": "/etc/roots.pem",
    }


def test_everything_pinned_installs_on_the_oldest_python() -> None:
    """A system's Python is often the first of its series: no package asks for a later one."""
    oldest = "3.11.0"
    asked = {each.name: each.metadata["Requires-Python"] or "" for each in distributions()}
    assert [name for name, versions in asked.items() if oldest not in SpecifierSet(versions)] == []
