"""What an edit changed: the differing values of two sets of arguments, each with its path."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.domain.action import canonical_bytes
from agent.domain.paths import Step, written
from agent.domain.request import Change
from agent.domain.template import plain

Difference = tuple[tuple[Step, ...], Any, Any]


def differences(before: Any, after: Any, steps: tuple[Step, ...] = ()) -> list[Difference]:
    """Where two JSON values differ, as steps with both values.

    Objects are compared key by key (a key that only one has differs against None) and lists of the same length
    item by item; anything else as a whole, by its canonical form, so that `1` and `1.0` are the same and `1` and
    `true` are not.
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = [*before, *(key for key in after if key not in before)]
        return [d for key in keys for d in _member(key, before, after, steps)]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [d for index, (old, new) in pairs for d in differences(old, new, (*steps, index))]
    same = canonical_bytes(before) == canonical_bytes(after)
    return [] if same else [(steps, before, after)]


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    """The differences between the arguments of two revisions."""
    return tuple(Change(written(steps), old, new) for steps, old, new in differences(before, after))


def told(made: Sequence[Change]) -> str:
    """The sentence for the model whose call was edited; empty when nothing was."""
    if not made:
        return ""
    parts = "; ".join(f"{each.path} from {_shown(each.before)} to {_shown(each.after)}" for each in made)
    return f"A reviewer changed the arguments before approving: {parts}."


def _member(
    key: str, before: Mapping[str, Any], after: Mapping[str, Any], steps: tuple[Step, ...]
) -> list[Difference]:
    here = (*steps, key)
    if key in before and key in after:
        return differences(before[key], after[key], here)
    return [(here, before.get(key), after.get(key))]


def _shown(value: Any) -> str:
    return plain(canonical_bytes(value).decode())
