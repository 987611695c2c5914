"""Make the virtual environment `.venv` of this checkout, from nothing but Python.

    python3 bootstrap.py [EXTRA ...]            # install service and demo, pinned, with extras
    python3 bootstrap.py --list [PART ...]      # print what a part needs, with hashes: service, demo, build or an extra
    python3 bootstrap.py --browser              # install Chromium if missing
    python3 bootstrap.py --pin [--upgrade]      # write constraints.txt again; versions stay where they can, or all move

Failures print one line and exit with code 2. PostgreSQL never runs as root, so for root in a private folder, `.venv` is
a link to a place that other users can reach (agent/database/locations.py).
"""

import sys

if sys.version_info < (3, 11):
    # An old Python must be able to parse this file.
    sys.stderr.write("signoff: needs Python 3.11 or newer, not {}.{}\n".format(*sys.version_info))
    sys.exit(2)

import ast
import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "signoff.json"
DEMO = "packages/signoff-demo"

# pip's settings for package sources, and uv's names for them.
REGISTRY = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "cert": "SSL_CERT_FILE",
}


def stop(why: str) -> NoReturn:
    """End the program with a sentence on standard error and status 2."""
    say(why)
    sys.exit(2)


def say(line: str) -> None:
    """Print a line on standard error, where no output of a command goes."""
    print(f"signoff: {line}", file=sys.stderr, flush=True)


def location() -> ModuleType:
    """Load `agent.database.locations` without its dependencies."""
    spec = importlib.util.spec_from_file_location("locations", ROOT / "agent" / "database" / "locations.py")
    if spec is None or spec.loader is None:
        stop("agent/database/locations.py is missing: this checkout is incomplete")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stamp() -> dict[str, Any]:
    """What the environment was made of; empty if none works."""
    try:
        found = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return found if os.access(PYTHON, os.X_OK) and isinstance(found, dict) else {}


def interpreter() -> list[str]:
    """Return what an environment is bound to: this Python, and the checkout that it installs."""
    return [sys.version, str(ROOT)]


def requirements() -> str:
    """A digest of everything that decides which packages are installed."""
    parts = (ROOT / "pyproject.toml", ROOT / DEMO / "pyproject.toml", ROOT / "constraints.txt")
    return hashlib.sha256(b"\0".join(part.read_bytes() for part in parts)).hexdigest()


def place() -> None:
    """Link `.venv` to a place outside where it must not be here."""
    if os.geteuid() == 0:
        os.umask(0o022)  # the server's user must be able to read PostgreSQL's programs
    outside = location().place_outside(ROOT)
    if outside is None:
        if VENV.is_symlink():
            VENV.unlink()
        return
    target = outside / "venv"
    target.mkdir(parents=True, exist_ok=True)
    if not location().open_to_others(target):
        stop(f"{target} is closed to other users, and PostgreSQL cannot run as root; use another user")
    if VENV.is_symlink() and VENV.resolve() == target:
        return
    if VENV.is_symlink():
        VENV.unlink()
    elif VENV.exists():
        VENV.rename(VENV.with_name(f".venv-replaced-{time.time_ns()}"))
    VENV.symlink_to(target, target_is_directory=True)
    say(f"this folder is private and you are root: environment and data go below {outside}")


def call(*command: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    """Run a command without the variables and questions that would change what pip installs."""
    pip = {"PIP_ROOT_USER_ACTION": "ignore", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        command, cwd=ROOT, env=settings | env | pip, capture_output=True, text=True, check=False
    )


def run(*command: str, **settings: str) -> str:
    """Return the output, which is shown only on failure."""
    done = call(*command, **settings)
    if done.returncode:
        sys.stderr.write(done.stdout[-2000:] + done.stderr[-4000:])
        stop(f"could not make .venv: {Path(command[0]).name} {' '.join(command[1:4])} failed (above is why)")
    return done.stdout


def registry(python: Path = PYTHON) -> dict[str, str]:
    """Translate pip's package sources for uv, which reads none of pip's settings."""
    told = {}
    for line in run(str(python), "-m", "pip", "config", "list").splitlines():
        name, _, value = line.partition("=")
        section, _, option = name.rpartition(".")
        told[section, option] = value
    # As in pip, the version decides, not the source.
    found = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    for section in ("global", "install", ":env:"):  # the last one that pip reads wins
        for option, uv in REGISTRY.items():
            if (section, option) in told:
                values = str(ast.literal_eval(told[section, option])).split()
                found[uv] = ("," if uv == "UV_FIND_LINKS" else " ").join(values)
    return found


def pinned(wanted: set[str]) -> str:
    """The requirements in constraints.txt that one of these parts needs: `build`, `demo`, `service`, or an extra."""
    found = re.split(r"^(?=\w)", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE)[1:]
    known = {name for each in found for name in needed_for(each)}
    if unknown := wanted - known:
        stop(f"constraints.txt knows no {', '.join(sorted(unknown))}, only {', '.join(sorted(known))}")
    return "".join(each for each in found if wanted.intersection(needed_for(each)))


def needed_for(requirement: str) -> list[str]:
    """Return the parts that a line of `constraints.txt` is for, from its comment."""
    return requirement.rpartition("# for ")[2].strip().split(", ")


def install(parts: set[str]) -> None:
    """Install with uv in seconds; if that fails, with pip in a minute or two."""
    with tempfile.TemporaryDirectory(prefix="signoff-") as folder:
        build, rest, quick = (Path(folder, name) for name in ("build.txt", "rest.txt", "uv.txt"))
        for file, needs in ((build, {"build"}), (rest, parts), (quick, {"uv"})):
            file.write_text(pinned(needs))
        pip = (str(PYTHON), "-m", "pip", "install", "--quiet")
        hashed = ("--no-deps", "--require-hashes", "-r")
        ours = ("--no-deps", "--no-build-isolation", "-e", ".", "-e", f"./{DEMO}")
        run(*pip, *hashed, str(build))
        # uv's cache keeps its files' rights, and root's cache may be closed to the user that PostgreSQL runs as.
        private = ("--no-cache",) if os.geteuid() == 0 else ()
        uv = (str(PYTHON), "-m", "uv", "pip", "install", "--python", str(PYTHON), *private)
        steps = ((*pip, *hashed, str(quick)), (*uv, *hashed, str(rest)), (*uv, *ours))
        if all(call(*step, **registry()).returncode == 0 for step in steps):
            return
        # Python compiles what it imports; most installed files are never imported.
        run(*pip, "--no-compile", *hashed, str(rest))
        run(*pip, "--no-compile", *ours)


def build(extras: list[str], *, anew: bool) -> None:
    """Install the service, the demo and these parts, into a new environment if `anew`."""
    if anew:
        if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
            stop("this Python lacks its venv module; on Debian or Ubuntu: apt-get install python3-venv")
        run(sys.executable, "-m", "venv", "--clear", str(VENV.resolve()))
    install({"service", "demo", *extras})


def browser() -> None:
    """As root on Debian or Ubuntu, install Chromium if missing."""
    if any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        stop("the browser tests need Chromium on PATH; on Debian or Ubuntu: apt-get install chromium")
    say("installing Chromium …")
    run("apt-get", "update", "-qq")
    # Chromium has no font for the emoji of cards.
    needed = ("chromium", "fontconfig", "fonts-noto-color-emoji")
    run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *needed)


def pin(*how: str) -> None:
    """Pin every dependency of every extra, with hashes, for every version of Python that is promised."""
    service, demo = "pyproject.toml", f"{DEMO}/pyproject.toml"
    extras = tomllib.loads((ROOT / service).read_text())["project"]["optional-dependencies"]
    with tempfile.TemporaryDirectory(prefix="signoff-pin-") as folder:
        names = ("bin/python", "whole.txt", "build.in", "uv.in")
        python, whole, build, quick = (Path(folder, name) for name in names)
        run(sys.executable, "-m", "venv", folder)
        run(str(python), "-m", "pip", "install", "--quiet", "uv")
        build.write_text("hatchling\n")
        quick.write_text("uv\n")
        shutil.copy(ROOT / "constraints.txt", whole)  # uv keeps its versions unless told to upgrade
        sources = registry(python)

        def resolve(*options: str) -> list[str]:
            tool = (str(python), "-m", "uv", "pip", "compile", "--universal", "--python-version", "3.11")
            return run(*tool, "--quiet", "--no-header", "--no-annotate", *options, **sources).splitlines()

        resolve(
            "--generate-hashes", "--all-extras", service, demo, str(build), str(quick), "-o", str(whole), *how
        )
        parts = {"build": (str(build),), "demo": (demo,), "service": (service,), "uv": (str(quick),)}
        parts |= {extra: (service, "--extra", extra) for extra in extras}
        needed: dict[str, list[str]] = {}
        for part, inputs in parts.items():
            for line in resolve("--constraints", str(whole), *inputs):
                needed.setdefault(name_of(line), []).append(part)
        found = re.split(r"^(?=\w)", whole.read_text(), flags=re.MULTILINE)[1:]
    lines = [f"{each.rstrip()}\n    # for {', '.join(needed[name_of(each)])}\n" for each in found]
    head = "# Every dependency of every extra, pinned, with hashes. Made by `make constraints`.\n"
    (ROOT / "constraints.txt").write_text(head + "".join(lines))
    say(f"constraints.txt pins {len(lines)} packages")


def name_of(requirement: str) -> str:
    """Return the name of the distribution that a pinned requirement is about."""
    return requirement.partition("==")[0].partition("[")[0]


def main(wanted: list[str]) -> None:
    """Make `.venv` have these parts and what it had; end at once if nothing changed."""
    with (ROOT / ".venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the second of two makes waits
        place()
        found = stamp()
        anew = found.get("interpreter") != interpreter()
        extras = sorted({*wanted, *([] if anew else found.get("extras", []))})
        if not anew and found.get("requirements") == requirements() and found["extras"] == extras:
            return
        say("making .venv, which takes up to two minutes …" if anew else "updating .venv …")
        begun = time.monotonic()
        STAMP.unlink(missing_ok=True)
        build(extras, anew=anew)
        made_of = {"interpreter": interpreter(), "requirements": requirements(), "extras": extras}
        STAMP.write_text(json.dumps(made_of))
        say(f".venv is ready ({time.monotonic() - begun:.0f} s)")


if __name__ == "__main__":
    try:
        if sys.argv[1:] == ["--browser"]:
            browser()
        elif sys.argv[1:2] == ["--pin"]:
            pin(*sys.argv[2:])
        elif sys.argv[1:2] == ["--list"]:
            print(pinned({*sys.argv[2:]} or {"service"}), end="")
        else:
            main(sys.argv[1:])
    except OSError as problem:
        stop(f"could not make .venv: {problem}")
