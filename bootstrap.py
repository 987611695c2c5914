"""Make the virtual environment `.venv` of this checkout, from nothing but Python.

    python3 bootstrap.py [EXTRA ...]      # install the project, pinned, with extras
    python3 bootstrap.py --browser        # install Chromium if missing
    python3 bootstrap.py --pin            # write constraints.txt again

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
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "signoff.json"

# pip's settings for package sources, and uv's names for them.
REGISTRY = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "cert": "SSL_CERT_FILE",
}


def stop(why: str) -> NoReturn:
    say(why)
    sys.exit(2)


def say(line: str) -> None:
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
    return [sys.version, str(ROOT)]


def requirements() -> str:
    """A digest of everything that decides which packages are installed."""
    parts = (ROOT / "pyproject.toml", ROOT / "constraints.txt")
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
    pip = {"PIP_ROOT_USER_ACTION": "ignore", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        command, cwd=ROOT, env=settings | env | pip, capture_output=True, text=True, check=False
    )


def run(*command: str) -> str:
    """Return the output, which is shown only on failure."""
    done = call(*command)
    if done.returncode:
        sys.stderr.write(done.stdout[-2000:] + done.stderr[-4000:])
        stop(f"could not make .venv: {Path(command[0]).name} {' '.join(command[1:4])} failed (above is why)")
    return done.stdout


def registry() -> dict[str, str]:
    """Translate pip's package sources for uv, which reads none of pip's settings."""
    told = {}
    for line in run(str(PYTHON), "-m", "pip", "config", "list").splitlines():
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


def install(project: str) -> None:
    """Install with uv in seconds; if that fails, with pip in a minute or two."""
    pip = (str(PYTHON), "-m", "pip", "install", "--quiet", "-c", "constraints.txt")
    uv = (str(PYTHON), "-m", "uv", "pip", "install", "--python", str(PYTHON), "-c", "constraints.txt")
    # uv's cache keeps its files' rights, and root's cache may be closed to the user that PostgreSQL runs as.
    private = ("--no-cache",) if os.geteuid() == 0 else ()
    if call(*pip, "uv").returncode == 0 and call(*uv, *private, "-e", project, **registry()).returncode == 0:
        return
    # Python compiles what it imports; most installed files are never imported.
    run(*pip, "--no-compile", "-e", project)


def build(extras: list[str], *, anew: bool) -> None:
    if anew:
        if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
            stop("this Python lacks its venv module; on Debian or Ubuntu: apt-get install python3-venv")
        run(sys.executable, "-m", "venv", "--clear", str(VENV.resolve()))
    install(f".[{','.join(extras)}]" if extras else ".")


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


def pin() -> None:
    """Pin every dependency of every extra, resolved in a fresh environment."""
    with tempfile.TemporaryDirectory(prefix="signoff-pin-") as folder:
        python = str(Path(folder) / "bin" / "python")
        run(sys.executable, "-m", "venv", folder)
        run(python, "-m", "pip", "install", "--quiet", "uv", ".[bench,dev,e2e]")
        frozen = run(python, "-m", "pip", "freeze", "--exclude", "signoff")
    pins = sorted((line for line in frozen.splitlines() if "==" in line), key=str.lower)
    head = "# Every dependency of every extra, pinned. Made by `make constraints`."
    (ROOT / "constraints.txt").write_text("\n".join([head, *pins, ""]))
    say(f"constraints.txt pins {len(pins)} packages")


def main(wanted: list[str]) -> None:
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
        elif sys.argv[1:] == ["--pin"]:
            pin()
        else:
            main(sys.argv[1:])
    except OSError as problem:
        stop(f"could not make .venv: {problem}")
