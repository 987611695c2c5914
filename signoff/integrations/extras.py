"""What an integration says when its framework is missing."""

from signoff import distribution


def missing_framework(framework: str, extra: str) -> ImportError:
    """Name the extra by its path: the checkout's, whatever an index has under our names."""
    ours, _ = distribution.installed()
    path = "./packages/signoff-client" if ours == distribution.CLIENT else "."
    return ImportError(f"this needs {framework}; in a checkout: pip install '{path}[{extra}]'")
