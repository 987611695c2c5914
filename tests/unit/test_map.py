"""The map of the code is true: `docs/architecture.md`, `docs/decisions/`, and what each module says of itself."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DECISIONS = ROOT / "docs" / "decisions"
PAGES = [each for each in sorted(DECISIONS.glob("*.md")) if each.name != "index.md"]
PARTS = ["Decision", "Why", "Rejected", "Revisit when"]
PACKAGES = ("agent", "slackbot", "signoff", "packages/signoff-demo/signoff_demo")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_decision_says_why_and_until_when(page: Path) -> None:
    """A decision has a reason, what was rejected, and when to look at it again, within 600 words."""
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == PARTS
    assert all(part.strip() for part in re.split(r"^## .*$", text, flags=re.MULTILINE))
    assert len(text.split()) <= 600


def test_the_index_lists_every_decision() -> None:
    """Each decision is on the index and in the site's navigation, once."""
    listed = re.findall(r"\]\(([\w-]+)\.md\)", (DECISIONS / "index.md").read_text(encoding="utf-8"))
    navigation = re.findall(r"decisions/([\w-]+)\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(listed) == [page.stem for page in PAGES]
    assert navigation == ["index", *listed]


@pytest.mark.parametrize("page", [ROOT / "docs" / "architecture.md", *PAGES], ids=lambda page: page.stem)
def test_every_module_that_the_map_names_exists(page: Path) -> None:
    """A path such as `store/pause.py` is the end of the path of a file."""
    files = [
        f"/{path.relative_to(ROOT)}"
        for folder in ("signoff", "agent", "slackbot", "packages", "tests")
        for path in (ROOT / folder).rglob("*.py")
    ]
    named = set(re.findall(r"(?<![\w/.])[\w/]+\.py\b", page.read_text(encoding="utf-8")))
    assert sorted(each for each in named if not any(path.endswith(f"/{each}") for path in files)) == []


def test_every_module_says_what_it_is() -> None:
    """A module's docstring begins with a sentence that stands alone; only an empty `__init__` has none."""
    unsaid = []
    for path in (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))):
        name = path.relative_to(ROOT).as_posix()
        module = ast.parse(path.read_text(encoding="utf-8"))
        first = (ast.get_docstring(module) or "").partition("\n")[0]
        if module.body and not re.fullmatch(r"[A-Z`].* .*[.?]", first):
            unsaid.append(f"{name}: {first}")
    assert unsaid == []
