"""The names of a run's ancestors, as people read them."""

from collections.abc import Iterable

from signoff.description import whole_words

MAX_LABEL = 80


def ancestor_names(above: Iterable[str], agent: str, label: str | None = None) -> str:
    """``orders › refunds “EU, Monday”``."""
    names = " › ".join((*above, agent))
    return f"{names} “{label}”" if label else names


def label_of(text: str | None) -> str | None:
    """Return a text as a run's label: one line of at most 80 characters, or None if nothing is left."""
    line = " ".join((text or "").replace("“", '"').replace("”", '"').split())
    return (line if len(line) <= MAX_LABEL else f"{whole_words(line[: MAX_LABEL - 1])}…") or None
