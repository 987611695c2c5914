"""Which checkpoints a new policy changes."""

from __future__ import annotations

from agent.domain.checkpoints import load
from agent.domain.errors import PolicyError


def changed_checkpoints(before: str, after: str) -> frozenset[str] | None:
    """Ids of checkpoints whose text differs. ``None``: not comparable, so all changed."""
    try:
        old, new = (load(text, filename="policy") for text in (before, after))
    except PolicyError:
        return None
    if new.grants is None:
        return None
    kept = {rule.checkpoint_id: rule for rule in new.rules}
    return frozenset(each.checkpoint_id for each in old.rules if kept.get(each.checkpoint_id) != each)
