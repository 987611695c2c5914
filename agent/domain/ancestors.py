"""Which agent works for which: the names of those that handed a task down, the first one first."""

from collections.abc import Iterable


def ancestor_names(above: Iterable[str], agent: str) -> str:
    """One line of names for people: ``orders › refunds``."""
    return " › ".join((*above, agent))
