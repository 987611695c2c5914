"""The extras of our distributions: one for each framework."""

from importlib.metadata import PackageNotFoundError, version


def missing_framework(framework: str, extra: str) -> ImportError:
    """The error of an integration whose framework is not installed; it says what to install."""
    try:
        version("signoff-client")
    except PackageNotFoundError:
        ours = "signoff"
    else:
        ours = "signoff-client"
    return ImportError(f"this needs {framework}: pip install '{ours}[{extra}]'")
