"""The links in the metadata of the distributions lead to the repository that they are built from."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOOKS = Path("packages", "signoff-client", "hatch_build.py")
CLIENT = Path("packages", "signoff-client")
HERE = Path()
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def web_page(remote: str) -> str | None:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / HOOKS)
    assert spec
    assert spec.loader
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: str | None = module.web_page(remote)
    return found


@pytest.mark.parametrize(
    ("remote", "page"),
    [
        ("https://git.example.com/team/signoff.git", "https://git.example.com/team/signoff"),
        ("https://git.example.com/team/signoff/", "https://git.example.com/team/signoff"),
        ("https://ada:secret@git.example.com:8443/team/signoff", "https://git.example.com:8443/team/signoff"),
        ("git@git.example.com:team/signoff.git", "https://git.example.com/team/signoff"),
        ("ssh://git@git.example.com:2222/team/signoff.git", "https://git.example.com/team/signoff"),
        ("/srv/git/signoff.git", None),
        ("../signoff", None),
        ("file:///srv/git/signoff", None),
        ("", None),
    ],
)
def test_the_page_of_a_remote(remote: str, page: str | None) -> None:
    """A remote on the web has a page, which never carries the credentials of the checkout; a local remote has none."""
    assert web_page(remote) == page


def git(folder: Path, *command: str) -> None:
    subprocess.run(["git", *command], cwd=folder, check=True, capture_output=True, timeout=30)


def field(project: Path, name: str) -> str:
    command = [sys.executable, "-m", "hatchling", "metadata", name]
    return subprocess.run(command, cwd=project, check=True, capture_output=True, text=True, timeout=60).stdout


def urls(project: Path) -> dict[str, str]:
    read: dict[str, str] = json.loads(field(project, "urls") or "{}")
    return read


def service(tmp_path: Path, remote: str) -> Path:
    (tmp_path / CLIENT).mkdir(parents=True)
    for file in (HOOKS, Path("pyproject.toml"), Path("README.md")):
        shutil.copy(ROOT / file, tmp_path / file)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "remote", "add", "origin", remote)
    return tmp_path


@needs_git
def test_pictures_and_links_of_the_readme_work_on_a_package_index(tmp_path: Path) -> None:
    """Relative ones lead to the repository that the service is built from; others stay as they are."""
    text = field(service(tmp_path, "https://git.example.com/team/signoff"), "readme")
    page = "https://git.example.com/team/signoff"
    assert f"]({page}/raw/HEAD/docs/images/approval.webp)" in text
    assert f"[quickstart]({page}/blob/HEAD/docs/quickstart.md)" in text
    assert set(re.findall(r"\]\((?!https://)[^)]*", text)) == set()


@needs_git
def test_the_readme_of_a_local_checkout_is_as_it_stands(tmp_path: Path) -> None:
    """Without a page of its repository, nothing is made up."""
    assert (
        field(service(tmp_path, "/srv/git/signoff.git"), "readme").strip()
        == (ROOT / "README.md").read_text().strip()
    )


@needs_git
@pytest.mark.parametrize("project", [HERE, CLIENT], ids=["service", "client"])
def test_a_build_links_to_its_repository(tmp_path: Path, project: Path) -> None:
    """Builds from a checkout with a remote name its page, sources and issues; without a remote they name nothing."""
    (tmp_path / CLIENT).mkdir(parents=True)
    for file in {
        HOOKS,
        CLIENT / "pyproject.toml",
        CLIENT / "README.md",
        Path("pyproject.toml"),
        Path("README.md"),
    }:
        shutil.copy(ROOT / file, tmp_path / file)
    git(tmp_path, "init", "--quiet")
    assert urls(tmp_path / project) == {}
    git(tmp_path, "remote", "add", "origin", "git@git.example.com:team/signoff.git")
    assert urls(tmp_path / project) == {
        "Source": "https://git.example.com/team/signoff",
        "Documentation": "https://git.example.com/team/signoff/tree/HEAD/docs",
        "Changes": "https://git.example.com/team/signoff/blob/HEAD/CHANGELOG.md",
        "Issues": "https://git.example.com/team/signoff/issues",
    }


@needs_git
def test_a_source_distribution_keeps_its_links(tmp_path: Path) -> None:
    """Built again from within another repository, it does not link to that one."""
    shutil.copy(ROOT / HOOKS, tmp_path)
    for file in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / CLIENT / file, tmp_path)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "remote", "add", "origin", "https://git.example.com/somebody/else")
    (tmp_path / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: signoff-client\nVersion: 0.1.0\n")
    assert urls(tmp_path) == {}
