"""Run like Python: has the server of `warm_python` fork a process, and ends when that process has ended.

It starts without `site` and imports little (not `pathlib`): each process waits for it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys


def main() -> None:
    address, *arguments = sys.argv[1:]
    files = [number for number in map(int, os.listdir("/dev/fd")) if _is_open(number)]  # noqa: PTH208
    folder = os.getcwd()  # noqa: PTH109
    asked = {"arguments": arguments, "folder": folder, "environment": dict(os.environ), "files": files}
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        said = json.dumps(asked).encode()
        sent = socket.send_fds(server, [said], files)
        server.sendall(said[sent:])
        server.shutdown(socket.SHUT_WR)
        for number in files:
            os.close(number)
        if is_program(arguments):
            _end_like(server)
        server.recv(1)


def is_program(arguments: list[str]) -> bool:
    """Whether they name a module or a file, and not the code of a worker, which reports its end itself."""
    return arguments[0] == "-m" or not arguments[0].startswith("-")


def _end_like(server: socket.socket) -> None:
    """Forward signals to the forked process, and exit with its status."""
    process = int.from_bytes(server.recv(4))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(process, number))
    code = server.recv(1)
    server.recv(1)
    if not code:
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(code[0])


def _is_open(number: int) -> bool:
    """Exclude the file that has just listed the others."""
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
