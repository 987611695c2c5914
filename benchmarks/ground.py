"""What all rows stand on: one embedded PostgreSQL with fsync on, and a fresh database for each side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from agent.database import embedded_server, locations, migrations


@dataclass(frozen=True)
class Ground:
    """The running server, and where results and logs go."""

    home: Path
    server: embedded_server.EmbeddedServer

    def fresh(self, name: str, *, migrated: bool = True) -> str:
        """An empty database of this name, with our schema or with nothing; returns its address."""
        with psycopg.connect(self.server.conninfo, autocommit=True) as admin:
            admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            admin.execute(f"CREATE DATABASE {name}")
        url = self.server.url.replace("/postgres?", f"/{name}?")
        if migrated:
            migrations.upgrade(url)
        return url

    def about(self) -> dict[str, str]:
        """What the numbers depend on most: the server's version and how it treats a commit."""
        with psycopg.connect(self.server.conninfo) as connection:
            names = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method")
            rows = [connection.execute(f"SHOW {name}").fetchone() for name in names]
        return {name: str(row[0]) for name, row in zip(names, rows, strict=True) if row}


@contextmanager
def ground() -> Iterator[Ground]:
    """Start the server, durable, and stop it in the end."""
    home = locations.data_home() / "bench"
    home.mkdir(parents=True, exist_ok=True)
    server = embedded_server.start(home / "postgres", durable=True)
    try:
        yield Ground(home, server)
    finally:
        server.stop()


def settle(url: str, places: Sequence[tuple[str, str]]) -> None:
    """Everything has been told: cards stand where these (ts, nonce) say, nothing is due."""
    plain = url.replace("postgresql+psycopg:", "postgresql:", 1)
    with psycopg.connect(plain, options="-c search_path=signoff") as connection:
        with connection.cursor() as cursor:
            cursor.executemany("UPDATE card_place SET ts = %s WHERE nonce = %s", places)
        connection.execute("UPDATE delivery SET state = 'sent', sent_at = clock_timestamp()")
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")
