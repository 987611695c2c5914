"""Former names of modules and classes: DBOS pickles what workflows return and raise, and reads it after upgrades."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_ERRORS = "signoff.errors"
_REVIEWS = "signoff.client.reviews"

FORMER_NAMES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "agent.client": {},
    "agent.client.errors": {name: (_ERRORS, name) for name in ("AlreadyClaimed", "ApiError", "Unreachable")},
    "agent.client.values": {
        "Claim": (_REVIEWS, "ClaimedAction"),
        "Decision": (_REVIEWS, "Approval"),
        "Ending": (_REVIEWS, "AttemptOutcome"),
        "Review": (_REVIEWS, "Review"),
    },
    "agent.domain.action": {"Action": ("signoff.values", "Action")},
    "agent.domain.errors": {
        name: (_ERRORS, name)
        for name in ("CollaborationError", "Conflict", "MalformedArguments", "SignoffError", "_again")
    },
    "agent.integrations": {},
    "agent.integrations.background": {
        "Begun": ("signoff.integrations.background", "BackgroundResult"),
        "Errand": ("signoff.integrations.background", "BackgroundCall"),
    },
    "agent.integrations.dbos": {"NotFromSignoff": ("signoff.integrations.dbos", "NotFromSignoff")},
}


def former_name(module: str, name: str) -> Any:
    """Raises AttributeError, as a module does."""
    try:
        place, now = FORMER_NAMES[module][name]
    except KeyError:
        raise AttributeError(f"module {module!r} has no attribute {name!r}") from None
    return getattr(import_module(place), now)


class FormerModules(MetaPathFinder, Loader):
    """Finds removed modules, after every other finder, so it hides no existing one."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in FORMER_NAMES:
            return None
        return ModuleSpec(fullname, self, is_package=not FORMER_NAMES[fullname])

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__getattr__"] = lambda name: former_name(module.__name__, name)
