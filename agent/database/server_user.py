"""PostgreSQL refuses to run as root, so root uses a separate account."""

import fcntl
import os
import pwd
import stat
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ACCOUNT = "signoff-postgres"
PASSWD = Path("/etc/passwd")


@dataclass(frozen=True)
class ServerUser:
    uid: int
    gid: int

    @classmethod
    def of(cls, data_dir: Path) -> "ServerUser":
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
