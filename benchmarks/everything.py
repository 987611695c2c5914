"""`python -m benchmarks.everything [--quick]`: measure all pages of `docs/benchmarks/` on one commit, and publish them.

It takes about an hour on two cores; the machine must be idle. A changed checkout is refused. It ends with status 1, and
a list, if a goal is missed or a part fails; what could be measured is published all the same.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from agent.database import locations
from benchmarks import publish

PARTS = {
    "rows": ("benchmarks", ["--quick"]),
    "idle": ("benchmarks.idle", ["--quick"]),
    "scale": ("benchmarks.scale", ["--decisions", "300"]),
    "growth": (
        "benchmarks.growth",
        ["--quick", "--sizes", "0,10000", "--dbos", "500", "--due", "5000", "--ready", "500"],
    ),
}
"""By page: the module that measures it, and its arguments for a first look."""


def measured(page: str, *, quick: bool) -> dict[str, Any] | None:
    """The result of a page's module, in a process of its own; None if it fails."""
    module, for_a_look = PARTS[page]
    begun = time.monotonic()
    print(f"— {page}", flush=True)
    ran = subprocess.run([sys.executable, "-m", module, *(for_a_look if quick else ())], check=False)
    print(f"— {page}: {(time.monotonic() - begun) / 60:.0f} min", flush=True)
    found = sorted((locations.data_home() / "bench").glob(f"{page}-*.json"))
    if ran.returncode or not found or found[-1].stat().st_mtime < time.time() - (time.monotonic() - begun):
        return None
    result: dict[str, Any] = json.loads(found[-1].read_text())
    return result


def missed(page: str, result: dict[str, Any] | None) -> list[str]:
    """A line for each goal that is not met."""
    if result is None:
        return [f"{page}: could not be measured"]
    return [
        f"{page}, row {line['row']}: {line['what']}: {line['measured']}, goal {line['goal']}"
        for line in result.get("lines", ())
        if line["met"] is False
    ]


def _check_clean() -> None:
    """Raises SystemExit: a page names its commit."""
    changed = subprocess.run(["git", "status", "--porcelain"], capture_output=True, text=True, check=False)
    if changed.returncode or changed.stdout.strip():
        raise SystemExit("commit or put aside what is changed first: each page names its commit")


def run(pages: Sequence[str], *, quick: bool) -> list[str]:
    """Publish a page as soon as it is measured. Returns the missed goals."""
    _check_clean()
    publishers = {page: publish.KINDS[page] for page in pages}  # a missing one fails now, not in the end
    found = []
    for page, written in publishers.items():
        result = measured(page, quick=quick)
        found += missed(page, result)
        if result is not None and not quick:
            written(result)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.everything", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, for a first look; nothing is published"
    )
    parser.add_argument("pages", nargs="*", choices=[[], *PARTS], help="only these; all by default")
    options = parser.parse_args()
    if found := run(options.pages or list(PARTS), quick=options.quick):
        print("missed:", *found, sep="\n  ")
        raise SystemExit(1)
    print("all goals are met")


if __name__ == "__main__":
    main()
