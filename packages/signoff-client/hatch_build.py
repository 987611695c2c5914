"""Hooks for the builds of the distributions: the package's place, and the project's addresses."""

import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

# hatchling is no dependency of ours, only of the build, so these classes have no types here.


class PackageHook(BuildHookInterface):  # type: ignore[misc]
    """Put the package `signoff` into the wheel, from the source distribution or from the surrounding checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        here = Path(self.root)
        places = [here / "signoff", here.parents[1] / "signoff"]
        build_data["force_include"][str(next(each for each in places if each.is_dir()))] = "signoff"


class UrlsHook(MetadataHookInterface):  # type: ignore[misc]
    """Link a distribution to the repository that it is built from: the checkout's remote `origin`.

    So a fork links to itself. A source distribution keeps the links that it was built with.
    """

    def update(self, metadata: dict[str, Any]) -> None:
        page = None if Path(self.root, "PKG-INFO").exists() else web_page(_origin(self.root))
        if "readme" in metadata["dynamic"] and "readme" not in metadata:
            text = Path(self.root, "README.md").read_text(encoding="utf-8")
            text = absolute(text, page) if page else text
            metadata["readme"] = {"content-type": "text/markdown", "text": text}
        if page:
            metadata["urls"] = {
                "Source": page,
                "Documentation": f"{page}/tree/HEAD/docs",
                "Changes": f"{page}/blob/HEAD/CHANGELOG.md",
                "Issues": f"{page}/issues",
            }


def absolute(text: str, page: str) -> str:
    """Markdown whose pictures and links can be read away from its repository, as a package index shows it."""
    text = re.sub(r"(!\[[^]]*\]\()(?!\w+:|#)", rf"\1{page}/raw/HEAD/", text)
    return re.sub(r"((?<!!)\[[^]]*\]\()(?!\w+:|#)", rf"\1{page}/blob/HEAD/", text)


def web_page(remote: str) -> str | None:
    """The page of a Git remote, without credentials; `None` for a local one."""
    if "://" not in remote and "@" in remote:  # git@host:path
        remote = f"ssh://{remote.replace(':', '/', 1)}"
    parts = urlsplit(remote)
    if parts.scheme not in {"https", "ssh"} or not parts.hostname:
        return None
    port = f":{parts.port}" if parts.scheme == "https" and parts.port else ""
    return f"https://{parts.hostname}{port}{parts.path.removesuffix('/').removesuffix('.git')}"


def _origin(root: str) -> str:
    command = ["git", "-C", root, "config", "--get", "remote.origin.url"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
    except OSError:  # there is no Git
        return ""
