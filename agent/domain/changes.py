"""What an edit changed, from canonical bytes."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.domain.request_view import Change
from signoff.canonical import canonical_bytes
from signoff.description import plain
from signoff.formats import approval_notes
from signoff.json_paths import Step, format_path
from signoff.masks import TextSpan, has_mask, redact_value
from signoff.values import Action

Difference = tuple[tuple[Step, ...], Any, Any]


def differences(before: Any, after: Any, steps: tuple[Step, ...] = ()) -> list[Difference]:
    """Differences between JSON values, as steps with both values.

    Objects by key (None: missing), lists of equal length by item, all else in canonical form: `1` equals `1.0`, not
    `true`.
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = [*before, *(key for key in after if key not in before)]
        return [d for key in keys for d in _member(key, before, after, steps)]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [d for index, (old, new) in pairs for d in differences(old, new, (*steps, index))]
    same = canonical_bytes(before) == canonical_bytes(after)
    return [] if same else [(steps, before, after)]


def between(proposed: bytes | None, decided: bytes | None) -> tuple[Change, ...]:
    """Compare canonical bytes, empty when erased."""
    if not proposed or not decided:
        return ()
    before, after = Action.from_canonical(bytes(proposed)), Action.from_canonical(bytes(decided))
    return as_changes(differences(before.arguments, after.arguments))


def as_changes(made: Sequence[Difference]) -> tuple[Change, ...]:
    """Return differences as changes to show, with each location written as one path."""
    return tuple(Change(format_path(steps), before, after) for steps, before, after in made)


def touches_hidden(
    made: Sequence[Difference], before: Mapping[str, Any], after: Mapping[str, Any], redact: Sequence[str]
) -> bool:
    """Whether a hidden value (by name or policy) differs, or a mask was entered as a value."""
    hidden = {
        secret.path
        for arguments in (before, after)
        for secret in redact_value(arguments, find=_nothing, redact=redact).secrets
    }
    paths = [format_path(steps) for steps, _, _ in made]
    if any(_around(path, secret) or _around(secret, path) for path in paths for secret in hidden):
        return True
    return any(_has_mask(new) and not _has_mask(old) for _, old, new in made)


def approval_note(made: Sequence[Change], notes: Sequence[str]) -> str:
    """Return what reviewers changed and noted when approving, in words for the model; empty if nothing."""
    lines = [approval_notes(notes)] if notes else []
    if made:
        parts = "; ".join(f"{each.path} from {_shown(each.before)} to {_shown(each.after)}" for each in made)
        lines.insert(0, f"A reviewer changed the arguments before approving: {parts}.")
    return "\n".join(lines)


def _member(
    key: str, before: Mapping[str, Any], after: Mapping[str, Any], steps: tuple[Step, ...]
) -> list[Difference]:
    here = (*steps, key)
    if key in before and key in after:
        return differences(before[key], after[key], here)
    return [(here, before.get(key), after.get(key))]


def _around(outer: str, inner: str) -> bool:
    return inner == outer or inner.startswith((f"{outer}.", f"{outer}["))


def _has_mask(value: Any) -> bool:
    return has_mask(canonical_bytes(value).decode())


def _nothing(_text: str) -> Sequence[TextSpan]:
    return ()


def _shown(value: Any) -> str:
    return plain(canonical_bytes(value).decode())
