"""A Python that has imported the tests, from which test processes and programs are forked.

Otherwise each would spend seconds of a core on the same imports, and hold them in its own memory.
"""

from __future__ import annotations

import fcntl
import gc
import json
import multiprocessing.spawn
import os
import runpy
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest
from sqlalchemy import SelectBase, TextClause

from agent import store
from agent.database.driver import sql_of
from tests import warm_client

ROOT = Path(__file__).parents[1]
F_SETSIG = 10
"""Linux: selects the signal for input on a file. Without it a killed program would continue."""
_SERVER = "from tests import warm_python; exec(warm_python.serve({!r}, {!r}, {!r}))"


@dataclass
class WarmPython:
    """The server, and a program that is run like Python and starts in milliseconds.

    It knows `-c`, `-m` and files. A module's or file's process ends with the program, even by `kill -9`, and the other
    way round; its `sys.executable` is the program.
    """

    folder: Path
    server: subprocess.Popen[bytes]

    @classmethod
    def start(cls, tests: Sequence[str]) -> WarmPython:
        """Requests for a fork wait until the tests are loaded."""
        folder = Path(
            tempfile.mkdtemp(prefix="signoff-warm-", dir="/tmp")
        )  # the address of a socket is short
        address = str(folder / "socket")
        program = folder / "python"
        command = [sys.executable, "-IS", warm_client.__file__, address]
        program.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        program.chmod(0o700)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen(100)
            server = subprocess.Popen(
                [sys.executable, "-c", _SERVER.format(listener.fileno(), str(program), list(tests))],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[listener.fileno()],
            )
        return cls(folder, server)

    @property
    def program(self) -> str:
        return str(self.folder / "python")

    def stop(self) -> None:
        self.server.communicate()
        shutil.rmtree(self.folder)


def warm() -> str:
    """A program to run like Python: the warm one if there is one."""
    return os.fsdecode(multiprocessing.spawn.get_executable())


def program(folder: Path, code: str) -> list[str]:
    path = folder / "program.py"
    path.write_text(code)
    return [warm(), str(path)]


class BrokenModules:
    """Forgets modules that cannot be imported: half loaded, they would have half of their tests in workers."""

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.failed:
            return
        for name, module in [*sys.modules.items()]:
            if getattr(module, "__file__", None) == str(ROOT / report.nodeid):
                del sys.modules[name]


def serve(listens: int, program: str, tests: Sequence[str]) -> str:
    """Load these tests, then fork for each connection to this socket, until standard input ends.

    Returns, in a forked process, the code to run.
    """
    thresholds = gc.get_threshold()
    # Collect in a pytest run, so that assertions are rewritten; workers report what cannot be loaded. Capture nothing:
    # a module that keeps `sys.stderr` would keep a file that is closed later.
    quiet = ["--collect-only", "-qqs", "-p", "no:xdist", "-p", "no:cacheprovider"]
    pytest.main([*quiet, *tests], plugins=[BrokenModules()])
    _load_what_is_needed_later()
    sys.stdout.flush()  # each fork would print what is left in the buffer
    gc.collect()
    gc.freeze()
    gc.set_threshold(*thresholds)
    multiprocessing.set_executable(program)  # for the fork servers of workers
    interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)
    forked: set[int] = set()
    with socket.socket(fileno=listens) as listener:
        while listens in select.select([listens, 0], [], [])[0]:
            asked, _ = listener.accept()
            if (process := os.fork()) == 0:
                listener.close()
                signal.signal(signal.SIGINT, interrupted)
                return _become(asked)
            asked.close()
            forked = {process, *(each for each in forked if os.waitpid(each, os.WNOHANG)[0] == 0)}
    for each in forked:
        if os.waitpid(each, os.WNOHANG)[0] == 0:  # it hangs
            os.kill(each, signal.SIGTERM)
            os.waitpid(each, 0)
    return ""


def _load_what_is_needed_later() -> None:
    """Import and build what the product loads on first use; each process would do so for itself."""
    for name in ("alembic.command", "cel", "agent.runtime.model_provider", "slackbot.app"):
        import_module(name)
    for found in walk_packages(store.__path__, f"{store.__name__}."):
        for value in vars(import_module(found.name)).values():
            if isinstance(value, SelectBase | TextClause):
                sql_of(value)
    charmap = import_module("hypothesis.internal.charmap")  # not before pytest, which rewrites its assertions
    charmap.intervals_from_codec("utf-8")  # for `st.text()`: seconds, unless an earlier run has kept it


def _become(asked: socket.socket) -> str:
    """Return the code to run."""
    said, files, _, _ = socket.recv_fds(asked, 1 << 16, 250)
    while more := asked.recv(1 << 16):
        said += more
    wanted = json.loads(said)
    numbers: list[int] = wanted["files"]
    above = max(*numbers, *files, asked.fileno()) + 1
    # The client does not end while this descriptor is open, in this process or in its forks.
    kept = fcntl.fcntl(asked.detach(), fcntl.F_DUPFD_CLOEXEC, above)
    files = [fcntl.fcntl(file, fcntl.F_DUPFD, above) for file in files]
    for number, file in zip(numbers, files, strict=True):
        os.dup2(file, number)
        os.close(file)
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    arguments: list[str] = wanted["arguments"]
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", 1)  # noqa: SIM115
    if "PYTHONUNBUFFERED" in os.environ:
        sys.stdout.reconfigure(line_buffering=True)
    if not warm_client.is_program(arguments):
        code = arguments.index("-c") + 1
        sys.argv = ["-c", *arguments[code + 1 :]]
        return arguments[code]
    is_module = arguments[0] == "-m"
    sys.executable = warm()
    sys.argv = arguments[is_module:]
    first = "" if is_module else str(Path(sys.argv[0]).parent)
    sys.path[:0] = [first, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return f"from tests import warm_python; warm_python.run_program({kept}, {is_module})"


def run_program(asked: int, is_module: bool) -> None:
    """Run what `sys.argv` names as Python would; send the client its process id and status."""
    os.write(asked, os.getpid().to_bytes(4))
    fcntl.fcntl(asked, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(asked, F_SETSIG, signal.SIGKILL)  # when the client has ended
    flags = fcntl.fcntl(asked, fcntl.F_GETFL)
    fcntl.fcntl(asked, fcntl.F_SETFL, flags | os.O_ASYNC)
    code = 0
    try:
        if is_module:
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)  # noqa: T201
    except BaseException:
        traceback.print_exc()
        code = 1
    fcntl.fcntl(asked, fcntl.F_SETFL, flags)
    os.write(asked, bytes([code]))
    sys.exit(code)
