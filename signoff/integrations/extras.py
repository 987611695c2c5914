"""The optional extras: one per framework."""

from importlib.metadata import PackageNotFoundError, version


def missing_framework(framework: str, extra: str) -> ImportError:
    """Says what to install."""
    try:
        version("signoff-client")
    except PackageNotFoundError:
        ours = "signoff"
    else:
        ours = "signoff-client"
    return ImportError(f"this needs {framework}: pip install '{ours}[{extra}]'")
