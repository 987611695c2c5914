"""Puts the package `signoff` into the wheel: out of the source distribution, or out of the checkout around it."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PackageHook(BuildHookInterface):  # type: ignore[misc]  # hatchling is no dependency of ours, only of the build
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        here = Path(self.root)
        places = [here / "signoff", here.parents[1] / "signoff"]
        build_data["force_include"][str(next(each for each in places if each.is_dir()))] = "signoff"
