"""Mask secrets by pattern, name or policy. Execution uses the originals."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from signoff.canonical import canonical_bytes
from signoff.errors import MalformedArguments
from signoff.json_paths import Step, format_path, is_redacted

NAMED = "named-secret"
BY_POLICY = "by-policy"
NOT_SCANNED = "not-scanned"
_MASK = re.compile(r"⟦redacted[^⟦⟧]{0,60}(?:⟧|\Z)|•+")
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_SECRET_NAME = re.compile(
    "passw(?:or)?d|passphrase|passcode|pwd|secret(?!ar)|credential|authorization|connectionstring|cookie|"
    "(?:api|access|private|signing|encryption|auth|account|master|ssh|session)key|"
    "(?:auth|api|access|refresh|bearer|id|session|bot|app|user|push|device|sas|csrf|xsrf)tokens?\\Z"
)
_SECRET_WORDS = frozenset({"token", "tokens", "cvv", "cvc", "otp", "totp", "pw", "passwd", "bearer", "jwt"})
_SECRET_NAMES = frozenset({"pass", "auth", "sig", "xamzsignature", "xgoogsignature"})
# `password_reset_at` and `token_count` are about a secret but contain none.
_ABOUT = re.compile(
    "accepted|age|arn|at|audience|budget|changed|consent|count|created|domain|enabled|endpoint|"
    "exists|expiration|expires|expiry|field|format|host|id|ids|in|issuer|kind|label|length|level|"
    "limit|manager|max|method|min|mode|name|names|path|policy|provider|required|reset|rotated|scheme|"
    "scope|scopes|server|size|status|strength|ttl|type|types|updated|uri|url|usage|used|valid|"
    "version"
)


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A stretch of a text to mask, up to but without `end`, and the kind of secret that it is."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class Secret:
    """`length` in characters of the text, or of the number as JSON."""

    path: str
    start: int
    length: int
    kind: str


Find = Callable[[str], Sequence[TextSpan]]
"""Spans may overlap."""


class RedactedValue(NamedTuple):
    """A displayable copy, its masks, and each value hidden by key or policy, with the kind."""

    value: Any
    secrets: tuple[Secret, ...]
    hidden: tuple[tuple[str, str], ...]


def mask(text: str, spans: Iterable[TextSpan], *, tight: bool = False) -> str:
    """Masks are like `⟦redacted github-token, 40 characters⟧`; `tight`: no longer than their spans."""
    pieces, end = [], 0
    for span in merge_spans(text, spans):
        pieces += [text[end : span.start], sign(span.kind, span.end - span.start, tight=tight)]
        end = span.end
    return "".join([*pieces, text[end:]])


def merge_spans(text: str, spans: Iterable[TextSpan]) -> list[TextSpan]:
    """Sort and merge; drop spans inside an existing mask."""
    masks = [found.span() for found in _MASK.finditer(text)] if "⟦" in text or "•" in text else []
    apart: list[TextSpan] = []
    for span in sorted(spans, key=lambda each: (each.start, -each.end)):
        if span.start >= span.end or any(start <= span.start and span.end <= end for start, end in masks):
            continue
        if apart and span.start < apart[-1].end:
            last = apart.pop()
            span = TextSpan(last.start, max(last.end, span.end), last.kind)  # noqa: PLW2901
        apart.append(span)
    return apart


def mask_piece(text: str, start: int, end: int, spans: Iterable[TextSpan]) -> str:
    """A part of the masked text; `spans` are merged. A span has its mask where it begins."""
    pieces = []
    for span in spans:
        if span.end <= start or span.start >= end:
            continue
        mark = sign(span.kind, span.end - span.start) if span.start >= start else ""
        pieces += [text[start : max(start, span.start)], mark]
        start = min(end, span.end)
    return "".join([*pieces, text[start:end]])


def mask_end(text: str, end: int) -> int:
    """The first place from `end` on that is not within a mask."""
    around = next((found for found in _MASK.finditer(text) if found.start() < end < found.end()), None)
    return around.end() if around else end


def has_mask(text: str) -> bool:
    """Whether a text contains a mask that says redacted; one of dots only is not found."""
    return "⟦redacted" in text


def is_secret_name(name: str) -> bool:
    """Whether a key names a secret: `dbPassword`, `X-Api-Key`, but not `token_count`."""
    return _is_secret_name(name[:100])


@lru_cache(maxsize=1000)  # the same few names recur everywhere
def _is_secret_name(name: str) -> bool:
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or (len(words) > 1 and _ABOUT.fullmatch(words[-1])):
        return False
    joined = "".join(words)
    return (
        joined in _SECRET_NAMES
        or not _SECRET_WORDS.isdisjoint(words)
        or _SECRET_NAME.search(joined) is not None
    )


def redact_value(
    value: Any,
    *,
    find: Find,
    redact: Sequence[str] = (),
    root: str = "args",
    steps: tuple[Step, ...] = (),
) -> RedactedValue:
    """Copy a JSON value with secrets masked, in keys too.

    Values under a secret's name or covered by `redact` are masked entirely. `steps` lead from `root` ("args" or
    "facts") to the value.
    """
    walk = _Walk(find, tuple(redact), root)
    named = any(isinstance(step, str) and is_secret_name(step) for step in steps)
    return RedactedValue(
        walk.copy(value, steps, NAMED if named else None), tuple(walk.secrets), tuple(walk.hidden)
    )


def redact_by_name(value: Any, redact: Sequence[str] = (), root: str = "args") -> RedactedValue:
    """Does not scan texts."""
    return redact_value(value, find=lambda _: (), redact=redact, root=root)


def is_unseen(redacted: RedactedValue) -> bool:
    """Whether something was masked that may be no secret."""
    return any(secret.kind == NOT_SCANNED for secret in redacted.secrets)


@dataclass
class _Walk:
    find: Find
    redact: tuple[str, ...]
    root: str
    secrets: list[Secret] = field(default_factory=list)
    hidden: list[tuple[str, str]] = field(default_factory=list)
    shown_steps: dict[str, str] = field(default_factory=dict)

    def copy(self, value: Any, steps: tuple[Step, ...], why: str | None) -> Any:
        if why != BY_POLICY and self.redact and is_redacted(steps, self.redact, self.root):
            why = BY_POLICY
        match value:
            case Mapping():
                return dict(self._members(value, steps, why))
            case list() | tuple():
                return [self.copy(item, (*steps, index), why) for index, item in enumerate(value)]
            case str() if why is None:
                return self._text(value, steps)
            case None | bool() if why != BY_POLICY:
                return value
            case int() | float() if why is None or (why == NAMED and _counts(steps)):
                return value
            case _:
                return self._whole(value, steps, why or NOT_SCANNED)

    def _members(
        self, value: Mapping[Any, Any], steps: tuple[Step, ...], why: str | None
    ) -> Iterator[tuple[str, Any]]:
        copies: dict[str, int] = {}
        for key, member in value.items():
            shown = unique = self._text(str(key), (*steps, "(key)"))
            while unique in copies:  # two keys may have the same mask; keep both
                copies[shown] += 1
                unique = f"{shown} ({copies[shown]})"
            copies[unique] = 1
            because = why or (NAMED if is_secret_name(str(key)) else None)
            yield unique, self.copy(member, (*steps, str(key)), because)

    def _text(self, text: str, steps: tuple[Step, ...]) -> str:
        spans = merge_spans(text, self.find(text))
        self._note(steps, spans)
        return mask(text, spans) if spans else text

    def _whole(self, value: Any, steps: tuple[Step, ...], why: str) -> Any:
        if value is None or isinstance(value, bool):
            self._note(steps, [TextSpan(0, 0, why)])
            return f"⟦redacted {why}⟧"  # a length would reveal which of the three it is
        text = value if isinstance(value, str) else _plain(value)
        if not text or _MASK.fullmatch(text):
            return value
        self.hidden.append((text, why))
        self._note(steps, [TextSpan(0, len(text), why)])
        return sign(why, len(text))

    def _note(self, steps: tuple[Step, ...], spans: Sequence[TextSpan]) -> None:
        if not spans:
            return
        path = format_path(self._step(step) if isinstance(step, str) else step for step in steps)
        self.secrets += [Secret(path, span.start, span.end - span.start, span.kind) for span in spans]

    def _step(self, step: str) -> str:
        """Few keys lead to thousands of values."""
        if step not in self.shown_steps:
            self.shown_steps[step] = mask(step, self.find(step))
        return self.shown_steps[step]


def _counts(steps: tuple[Step, ...]) -> bool:
    """Numbers under `tokens` count a model's tokens; those under `pass`, passed tests."""
    names = [step.lower() for step in steps if isinstance(step, str)]
    return bool(names) and (names[-1].endswith("tokens") or names[-1] == "pass")


def _plain(value: Any) -> str:
    try:
        return canonical_bytes(value).decode()
    except MalformedArguments:
        return repr(value)


def sign(kind: str, length: int, *, tight: bool = False) -> str:
    """Return a secret's mask; a `tight` one is the longest that is no longer than the secret."""
    full = f"⟦redacted {kind}, {length:,} character{'' if length == 1 else 's'}⟧"
    if not tight:
        return full
    shorter = (full, f"⟦redacted {kind}⟧", "⟦redacted⟧", "•" * length)
    return next(each for each in shorter if len(each) <= length)
