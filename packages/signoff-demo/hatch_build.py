"""The project's addresses for this distribution, by the hook that lies with signoff-client.

A source distribution has no checkout around it, and its PKG-INFO has the addresses already.
"""

import importlib.util
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_BESIDE = Path(__file__).resolve().parents[1] / "signoff-client" / "hatch_build.py"


class UrlsHook(MetadataHookInterface):  # type: ignore[misc]
    """A build hook that takes the project's URLs from signoff-client; without a checkout, it adds none."""

    def update(self, metadata: dict[str, Any]) -> None:
        spec = importlib.util.spec_from_file_location("signoff_hatch_build", _BESIDE)
        if _BESIDE.is_file() and spec is not None and spec.loader is not None:
            hooks = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(hooks)
            hooks.UrlsHook(self.root, self.config).update(metadata)
