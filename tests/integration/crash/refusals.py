"""How a database refuses to write while it answers: each is made with a real server, and taken back."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psycopg

from agent.database import embedded_server, migrations
from agent.database.embedded_server import EmbeddedServer

MAY_MOUNT = os.geteuid() == 0
"""Only root can make a disk that is full."""

ROOM = "size=256m"

Refusal = Callable[[EmbeddedServer], AbstractContextManager[None]]


def execute(server: EmbeddedServer, *statements: str) -> None:
    with psycopg.connect(server.conninfo, autocommit=True) as owner:
        for statement in ("SET default_transaction_read_only = off", *statements):
            owner.execute(statement)


@contextmanager
def read_only(server: EmbeddedServer) -> Iterator[None]:
    """As a standby that was the primary, or a provider's switch at a quota."""
    execute(server, "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
    try:
        yield
    finally:
        execute(server, "ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()")


@contextmanager
def no_rights(server: EmbeddedServer) -> Iterator[None]:
    """A migration of somebody else took the rights on one table."""
    execute(server, "REVOKE INSERT ON signoff.audit_event FROM signoff_app")
    try:
        yield
    finally:
        execute(server, "GRANT INSERT ON signoff.audit_event TO signoff_app")


@contextmanager
def no_schema(server: EmbeddedServer) -> Iterator[None]:
    """The schema is not the role's to use."""
    execute(server, "REVOKE USAGE ON SCHEMA signoff FROM signoff_app")
    try:
        yield
    finally:
        execute(server, "GRANT USAGE ON SCHEMA signoff TO signoff_app")


@contextmanager
def full_disk(server: EmbeddedServer) -> Iterator[None]:
    """Every byte is taken; on a disk of its own."""
    ballast = server.data_dir.parent / "ballast"
    with ballast.open("wb", buffering=0) as file:
        size = 1 << 20
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2
    try:
        yield
    finally:
        ballast.unlink()


REFUSALS: dict[str, tuple[Refusal, str]] = {
    "read-only": (read_only, "it is read-only"),
    "no rights": (no_rights, "a right of the service is missing"),
    "no schema": (no_schema, "a right of the service is missing"),
    "full disk": (full_disk, "its disk is full"),
}
"""How, and what people are told."""


@contextmanager
def own_disk(folder: Path) -> Iterator[EmbeddedServer]:
    """A server with a small disk of its own where this may be mounted, and otherwise with a folder."""
    folder.mkdir()
    if MAY_MOUNT:
        subprocess.run(["mount", "-t", "tmpfs", "-o", ROOM, "tmpfs", folder], check=True)
    try:
        folder.chmod(0o755)
        server = embedded_server.start(folder / "pg", durable=False)
        try:
            migrations.upgrade(server.url)
            yield server
        finally:
            server.stop()
    finally:
        if MAY_MOUNT:
            subprocess.run(["umount", "-l", folder], check=True)
        shutil.rmtree(folder, ignore_errors=True)
