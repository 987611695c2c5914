"""Which distribution brought this package: the whole service, or its client alone."""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from signoff.errors import SignoffError

SERVICE = "signoff"
CLIENT = "signoff-client"


def installed() -> tuple[str, str]:
    """The distribution's name and version; `unknown` for a checkout that is not installed.

    Raises SignoffError if both are installed: they own the same files, so removing one breaks the other.
    """
    found = []
    for name in (SERVICE, CLIENT):
        with suppress(PackageNotFoundError):
            found.append((name, version(name)))
    if len(found) > 1:
        raise SignoffError(
            f"{SERVICE} and {CLIENT} are both installed and own the same files; remove both and install one: "
            f"pip uninstall --yes {SERVICE} {CLIENT}"
        )
    return found[0] if found else (SERVICE, "unknown")
