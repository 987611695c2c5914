"""The embedded PostgreSQL: it starts, is shared, survives its owner, and heals what a crash left behind."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
import pytest

from agent.database import postmaster
from agent.database.embedded_server import EmbeddedServer, EmbeddedServerError, start
from agent.database.postmaster import runs_on
from tests.warm_python import program

OWNER = """
import os, sys
from pathlib import Path
from agent.database.embedded_server import start
server = start(Path(sys.argv[1]), durable=sys.argv[2] == "durable")
print(os.getpid(), server.pid, flush=True)
sys.stdin.read()
server.stop()
"""


@dataclass
class OwnerProcess:
    """A process that owns a server."""

    program: "subprocess.Popen[str]"
    pid: int

    def end(self) -> None:
        """Let it stop its server."""
        self.program.communicate(timeout=30)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.program.wait(10)


Owner = Callable[..., tuple[OwnerProcess, int]]


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait until `condition` holds, or fail."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)


def ask(server: EmbeddedServer, question: str) -> str:
    """The single value that the server answers with."""
    with psycopg.connect(server.conninfo, connect_timeout=5, autocommit=True) as connection:
        row = connection.execute(question).fetchone()
    assert row is not None
    return str(row[0])


def remember(server: EmbeddedServer, word: str) -> None:
    """Commit a word that a later start must still know."""
    with psycopg.connect(server.conninfo, connect_timeout=5) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS memory (word text)")
        connection.execute("INSERT INTO memory VALUES (%s)", (word,))


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty folder that the server's user can reach, also when the tests run as root."""
    with tempfile.TemporaryDirectory(prefix="signoff-test-", dir="/tmp") as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def new_data_dir(place: Path) -> Iterator[Path]:
    """Where a server may live; whatever still runs there at the end is stopped."""
    folder = place / "postgres"
    yield folder
    if (folder / "postmaster.pid").exists():
        start(folder, durable=False).stop()


@pytest.fixture
def data_dir(new_data_dir: Path, server_files: Path) -> Path:
    """The same, with the files of a server that ran there before."""
    subprocess.run(["cp", "-a", server_files, new_data_dir], check=True)
    return new_data_dir


@pytest.fixture
def owner(data_dir: Path, place: Path) -> Iterator[Owner]:
    """Starts another process that owns the server; gives the process and the server's pid."""
    begun: list[OwnerProcess] = []

    def begin(mode: str = "fast") -> tuple[OwnerProcess, int]:
        child = subprocess.Popen(
            [*program(place, OWNER), str(data_dir), mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        own, server = map(int, child.stdout.readline().split())
        begun.append(OwnerProcess(child, own))
        return begun[-1], server

    yield begin
    for process in begun:
        process.end()


@contextmanager
def running(data_dir: Path, *, durable: bool = False) -> Iterator[EmbeddedServer]:
    """A server that is stopped at the end."""
    server = start(data_dir, durable=durable)
    try:
        yield server
    finally:
        server.stop()


def test_cold_start(new_data_dir: Path) -> None:
    """A first start makes a durable PostgreSQL 18 that many can use and no network can reach."""
    with running(new_data_dir, durable=True) as server:
        assert server.owned
        assert ask(server, "SHOW server_version").startswith("18")
        assert ask(server, "SHOW max_connections") == "200"
        assert ask(server, "SHOW listen_addresses") == ""
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            assert ask(server, f"SHOW {name}") == "on"
        assert server.socket_dir.stat().st_mode & 0o077 == 0
    assert not runs_on(server.pid, new_data_dir)
    assert not (new_data_dir / "postmaster.pid").exists()


def test_warm_start(data_dir: Path) -> None:
    """What was committed before a stop is there after the next start."""
    with running(data_dir) as server:
        remember(server, "kept")
    with running(data_dir) as again:
        assert again.pid != server.pid
        assert ask(again, "SELECT word FROM memory") == "kept"


def test_second_stop_does_nothing(data_dir: Path) -> None:
    """Stopping twice is harmless, even when somebody else has started the server again in between."""
    first = start(data_dir, durable=False)
    first.stop()
    with running(data_dir) as second:
        first.stop()
        assert ask(second, "SELECT 1") == "1"


def test_second_process_attaches(data_dir: Path, owner: Owner) -> None:
    """While another process owns the server, start gives the same server, and our stop leaves it running."""
    process, pid = owner()
    server = start(data_dir, durable=False)
    assert (server.pid, server.owned) == (pid, False)
    server.stop()
    assert ask(server, "SELECT 1") == "1"
    process.end()
    assert not runs_on(pid, data_dir)


def test_owner_killed(data_dir: Path, owner: Owner) -> None:
    """The server outlives a killed owner; the next start adopts it, keeps its data and may stop it."""
    process, pid = owner()
    remember(start(data_dir, durable=False), "kept")
    process.kill()
    with running(data_dir) as server:
        assert (server.pid, server.owned) == (pid, True)
        assert ask(server, "SELECT word FROM memory") == "kept"
    assert not runs_on(pid, data_dir)


def test_owner_and_server_killed(data_dir: Path, owner: Owner) -> None:
    """When the server was killed too, its stale address is cleared away and what was committed is back."""
    process, pid = owner("durable")
    remember(start(data_dir), "kept")
    process.kill()
    os.kill(pid, signal.SIGKILL)
    until(lambda: not runs_on(pid, data_dir))
    assert (data_dir / "postmaster.pid").exists()
    with running(data_dir, durable=True) as server:
        assert server.pid != pid
        assert ask(server, "SELECT word FROM memory") == "kept"


@pytest.mark.parametrize(
    "record", ["{stranger}\n{data_dir}\n1700000000\n5432\n{data_dir}\n\n1 2\nready\n", "", "4"]
)
def test_stale_address(data_dir: Path, record: str) -> None:
    """An address left behind is not trusted: its process number may be another program's, or rubbish."""
    start(data_dir, durable=False).stop()
    (data_dir / "postmaster.pid").write_text(record.format(stranger=os.getpid(), data_dir=data_dir))
    with running(data_dir) as server:
        assert server.owned
        assert ask(server, "SELECT 1") == "1"


def test_half_made_data(new_data_dir: Path) -> None:
    """A first start that was killed half-way is begun afresh by the next one."""
    half = new_data_dir.with_name("postgres.new")
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")
    with running(new_data_dir) as server:
        assert ask(server, "SELECT 1") == "1"
    assert not half.exists()


def test_long_and_odd_path(data_dir: Path, place: Path) -> None:
    """A path too long for a socket, with spaces and commas, works; its socket folder goes at the stop."""
    odd = place / "a folder, with commas" / ("long-" * 30)
    odd.mkdir(parents=True)
    data_dir.rename(odd / "postgres")
    with running(odd / "postgres") as server:
        assert ask(server, "SELECT 1") == "1"
        assert server.socket_dir != server.data_dir
        assert server.socket_dir.stat().st_mode & 0o077 == 0
    assert not server.socket_dir.exists()


def test_survivor_of_a_test_is_made_durable(data_dir: Path, owner: Owner) -> None:
    """A server that was started without safety is never handed out as a safe one."""
    process, pid = owner("fast")
    with pytest.raises(EmbeddedServerError, match="lose data"):
        start(data_dir, durable=True)
    process.kill()
    with running(data_dir, durable=True) as server:
        assert server.pid != pid
        assert ask(server, "SHOW fsync") == "on"


def test_many_start_at_once(new_data_dir: Path) -> None:
    """Of several processes that start it at the same moment, all get one server, and only one owns it."""
    with ThreadPoolExecutor(4) as pool:
        servers = list(pool.map(lambda _: start(new_data_dir, durable=False), range(4)))
    assert len({server.pid for server in servers}) == 1
    assert sorted(server.owned for server in servers) == [False, False, False, True]
    for server in sorted(servers, key=lambda server: server.owned):
        server.stop()
    assert not runs_on(servers[0].pid, new_data_dir)


def test_no_folder_is_opened(place: Path) -> None:
    """Existing folders above the data keep their modes."""
    inner = place / "inner"
    inner.mkdir()
    inner.chmod(0o711)
    before = {folder: folder.stat().st_mode for folder in (inner, *inner.parents)}
    with running(inner / "new" / "postgres") as server:
        assert ask(server, "SELECT 1") == "1"
    assert {folder: folder.stat().st_mode for folder in before} == before


def test_unusable_place_is_one_line(place: Path) -> None:
    """Where the server's user may not go, one line says so, and nobody's folder is opened."""
    closed = place / "closed"
    closed.mkdir()
    closed.chmod(0o700 if os.geteuid() == 0 else 0o500)
    before = closed.stat().st_mode
    with pytest.raises(EmbeddedServerError, match=r"SIGNOFF_HOME|Permission denied") as failure:
        start(closed / "postgres", durable=False)
    assert "\n" not in str(failure.value)
    assert closed.stat().st_mode == before


def test_a_start_that_takes_too_long_ends_before_its_files_go(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files that let others find a server are deleted only once it has ended, whoever is connected to it."""
    alive: list[str] = []
    connected: list[psycopg.Connection[object]] = []
    forget, monotonic = postmaster.forget, time.monotonic

    def connect(_: Path, socket_dir: Path) -> None:
        """The server would wait for this connection if it were only asked to stop, and its time is over by now."""
        with suppress(psycopg.OperationalError):
            connected.append(psycopg.connect(postmaster.conninfo(socket_dir)))

    def clock() -> float:
        return monotonic() + (postmaster.START_SECONDS if connected else 0.0)

    def forgetting(folder: Path, socket_dir: Path) -> None:
        alive.extend(each.name() for each in psutil.Process().children() if runs_on(each.pid, folder))
        forget(folder, socket_dir)

    monkeypatch.setattr(postmaster, "forget", forgetting)
    monkeypatch.setattr(postmaster, "probe", connect)
    monkeypatch.setattr(time, "monotonic", clock)
    with pytest.raises(EmbeddedServerError, match="did not start"):
        start(data_dir, durable=False)
    monkeypatch.undo()
    assert (alive, len(connected)) == ([], 1)
    connected[0].close()
    with running(data_dir) as server:
        assert ask(server, "SELECT 1") == "1"
