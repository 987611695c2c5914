"""Another PostgreSQL for the tests than the embedded one, such as the oldest that is promised."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

import pytest

from agent.database import embedded_server, postmaster

PROGRAMS = "PYTEST_POSTGRES"
"""The environment variable that names the folder of its `initdb` and `postgres`."""


def use_it() -> None:
    """Have embedded servers of this process run the named programs, if any; only processes that tests start keep theirs."""  # noqa: E501
    if (named := os.environ.get(PROGRAMS)) is None:
        return
    real = Path(named)
    printed = subprocess.run([real / "postgres", "--version"], capture_output=True, text=True, check=False)
    if printed.returncode:
        raise pytest.UsageError(f"{PROGRAMS}={named} has no program that runs: {printed.stderr}")
    postmaster.MAJOR = printed.stdout.split()[2].partition(".")[0]
    programs = _programs(real) if int(postmaster.MAJOR) < 17 else real
    setattr(embedded_server, "find_programs", lambda: programs)  # noqa: B010 - it is offered by postmaster


def _programs(real: Path) -> Path:
    """The same, for `initdb` before 17, which knows no built-in locale: C.UTF-8 of the system sorts alike."""
    folder = Path(tempfile.mkdtemp(prefix="signoff-postgres-", dir="/tmp"))
    folder.chmod(0o755)
    initdb = folder / "initdb"
    initdb.write_text(
        "#!/bin/bash\n"
        "for each; do shift; case $each in --locale*|--builtin-locale*|--no-instructions) ;; "
        '*) set -- "$@" "$each" ;; esac; done\n'
        f'exec {shlex.quote(str(real / "initdb"))} "$@" --locale=C.UTF-8\n'
    )
    initdb.chmod(0o755)
    for each in real.iterdir():
        if each.name != "initdb":
            (folder / each.name).symlink_to(each)
    return folder
