"""The embedded server's view of what is there, without starting one."""

import os
import time
from pathlib import Path

import pytest
from sqlalchemy import make_url

from agent.database import postmaster
from agent.database.embedded_server import EmbeddedServer, EmbeddedServerError, start
from agent.database.postmaster import ServerUser
from tests.patience import promised

POSTMASTER_PID = "{pid}\n{data_dir}\n1700000000\n5432\n{socket_dir}\n\n  1234   5678\nready   \n"


def test_address_survives_odd_paths() -> None:
    """Spaces, percent signs and question marks in a path arrive unchanged in SQLAlchemy and in libpq."""
    folder = Path("/srv/my data/100%/a?b&c")
    server = EmbeddedServer(folder, folder, pid=1, owned=False)
    url = make_url(server.url)
    assert (url.drivername, url.query["host"], url.username) == (
        "postgresql+psycopg",
        str(folder),
        "postgres",
    )
    assert server.conninfo.startswith("postgresql://")


def test_recorded_address(tmp_path: Path) -> None:
    """Process and socket folder are read from postmaster.pid, whose fifth line may still be missing."""
    assert postmaster.recorded_address(tmp_path) is None
    pid_file = tmp_path / "postmaster.pid"
    pid_file.write_text(POSTMASTER_PID.format(pid=77, data_dir=tmp_path, socket_dir="/tmp/signoff-x"))
    assert postmaster.recorded_address(tmp_path) == (77, Path("/tmp/signoff-x"))
    pid_file.write_text(f"78\n{tmp_path}\n1700000000\n5432\n")
    assert postmaster.recorded_address(tmp_path) == (78, tmp_path)


@pytest.mark.parametrize("rubbish", ["", "\n\n", "not a number\n", "-\n"])
def test_unreadable_record_names_nobody(tmp_path: Path, rubbish: str) -> None:
    """A postmaster.pid that a crash cut off is taken for a record of no process, not for an error."""
    (tmp_path / "postmaster.pid").write_text(rubbish)
    assert postmaster.recorded_address(tmp_path) == (0, tmp_path)


@pytest.mark.parametrize("pid", [0, 1, os.getpid(), 2**22 + 1], ids=["none", "init", "us", "nobody"])
def test_strangers_are_not_the_server(tmp_path: Path, pid: int) -> None:
    """A process that merely got the number of a server that is gone is never taken for it."""
    assert not postmaster.runs_on(pid, tmp_path)


def test_probe_is_quick_about_a_dead_address(tmp_path: Path) -> None:
    """An address where nobody listens is no answer, at once."""
    begun = time.monotonic()
    assert postmaster.probe(tmp_path, tmp_path) is None
    assert time.monotonic() - begun < promised(1)


def test_no_programs_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the wheel has no PostgreSQL, one line says so and names the solution."""
    monkeypatch.setattr(postmaster, "find_spec", lambda _name: None)
    with pytest.raises(EmbeddedServerError, match="DATABASE_URL") as failure:
        start(tmp_path / "postgres")
    assert "\n" not in str(failure.value)


def test_data_of_another_version_is_refused(tmp_path: Path) -> None:
    """Data written by another major version is named and left alone."""
    data_dir = tmp_path / "postgres"
    data_dir.mkdir()
    (data_dir / "PG_VERSION").write_text("16\n")
    with pytest.raises(EmbeddedServerError, match="PostgreSQL 16"):
        postmaster.create(data_dir, tmp_path, ServerUser.of(tmp_path), durable=False)
    assert [entry.name for entry in data_dir.iterdir()] == ["PG_VERSION"]


def test_reason_is_the_fatal_line() -> None:
    """Of a log, the line that says why is shown."""
    log = "LOG:  starting\nFATAL:  could not map memory\nLOG:  database system is shut down\n"
    assert postmaster.last_line(log) == "FATAL:  could not map memory"
    assert postmaster.last_line("") == "it said nothing"
