"""The tour: the whole product on this machine, without setup.

PostgreSQL is embedded, Slack is a sandbox with a browser page, and the model is a script. The service is the real one,
in its own process.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from signoff_demo.run import run_demo

__all__ = ["run_demo"]


def __getattr__(name: str) -> Any:
    """Load the tour when it is asked for: a service that runs an example agent needs no sandbox."""
    if name != "run_demo":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from signoff_demo.run import run_demo  # noqa: PLC0415

    return run_demo
