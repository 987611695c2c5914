"""Secrets in a text: tokens by shape, private keys, and values behind a secret's name.

The time is in proportion to the text. What was not searched in time counts as secret.
"""

from __future__ import annotations

import json
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from copy import copy

from agent.domain.repetitions import repetitions
from signoff.masks import NOT_SCANNED, TextSpan, redact_by_name
from slackbot.masking.assignments import STEMS, assignments
from slackbot.masking.tokens import TOKENS, aws_secrets, cut_tokens, url_passwords

BUDGET = 0.5
"""Seconds for a card, answer or line."""

SHORT = 2000
SURE = 20_000
"""Characters of short texts that are checked even after the time limit: a busy machine can still show lists."""

FEW = 8
"""Hidden values at most, for that to take a fraction of a second."""

LONGEST = 1_000_000
"""Characters of one text that are checked; the rest is masked unread."""

HINTED = 200
"""Characters up to which a text is first checked for hints."""

Clock = Callable[[], float]


class SecretFinder:
    """Finds secrets and `hidden` values until its time is up.

    `assigned`: what follows a name like `api_key` is a secret. `sure`: characters of short texts that are searched
    however late it is.
    """

    def __init__(
        self,
        hidden: Sequence[tuple[str, str]] = (),
        *,
        budget: float = BUDGET,
        clock: Clock = time.monotonic,
        assigned: bool = True,
        sure: int = 0,
    ) -> None:
        self._looks = (
            private_keys,
            web_tokens,
            aws_secrets,
            url_passwords,
            cut_tokens,
            *([assignments] if assigned else []),
        )
        self._hidden = tuple(dict.fromkeys(hidden))
        self._clock = clock
        self._until = clock() + budget
        self._sure = sure

    def also(self, hidden: Sequence[tuple[str, str]]) -> SecretFinder:
        """A finder of these values, too, within the same time."""
        other = copy(self)
        other._hidden = tuple(dict.fromkeys((*self._hidden, *hidden)))  # noqa: SLF001 - its own kind
        return other

    def __call__(self, text: str) -> Sequence[TextSpan]:
        """Returns the whole text if there was no time."""
        if not text or text.isspace():
            return ()
        if len(text) <= HINTED and not self._hidden and not _may_hold_secret(text):
            return ()
        looked_at = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
        found: list[TextSpan] = []
        sure = len(text) <= min(SHORT, self._sure) and len(self._hidden) <= FEW
        self._sure -= len(text) if sure else 0
        if not sure and self._is_late():
            return [TextSpan(0, len(text), NOT_SCANNED)]
        for span in self._steps(looked_at):
            if not sure and self._is_late():
                return [TextSpan(0, len(text), NOT_SCANNED)]
            if span is not None:
                found.append(span)
        if len(text) > LONGEST:
            found.append(TextSpan(LONGEST, len(text), NOT_SCANNED))
        return found

    def _is_late(self) -> bool:
        return self._clock() > self._until

    def _steps(self, text: str) -> Iterator[TextSpan | None]:
        """Yields `None` after each piece of work."""
        for token in TOKENS:
            for anchor in token.anchors:
                if anchor in text:
                    yield from token.find(text)
                    yield None
                    break
        for look in self._looks:
            yield from look(text)
            yield None
        for value in (*self._hidden, *_named_in_json(text)):
            yield from repetitions(text, (value,))
            yield None


def _named_in_json(text: str) -> Sequence[tuple[str, str]]:
    """What keys make secret in JSON text, however deep: `"tokens": ["…", "…"]`."""
    if text.lstrip()[:1] not in ("{", "["):
        return ()
    try:
        return redact_by_name(json.loads(text)).hidden
    except (ValueError, RecursionError):
        return ()


def everything(text: str) -> Sequence[TextSpan]:
    """The fallback when nothing could be checked."""
    return [TextSpan(0, len(text), NOT_SCANNED)] if text else ()


_KEY = r"(?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?"
_BEGIN = re.compile(rf"(?:-{{2,5}} ?)?BEGIN {_KEY}(?: ?-{{2,5}})?")
_END = re.compile(rf"(?:-{{2,5}} ?)?END {_KEY}(?: ?-{{2,5}})?")
_PUTTY = re.compile(r"PuTTY-User-Key-File-\d")
_PUTTY_END = re.compile(r"Private-(?:MAC|Hash): ?[0-9a-f]*")
# Base64, line breaks (also escaped or of quoted lines) and headers such as "DEK-Info: AES,1F".
_BODY = re.compile(r"[A-Za-z0-9+/=:,\-\s\\⏎>]*")
_NOT_BODY = re.compile(r"[^A-Za-z0-9+/=:,\-\s\\⏎>]")
_LONGEST_KEY = 20_000


def private_keys(text: str) -> Iterator[TextSpan]:
    """Keys may be cut off at either end."""
    if "PRIVATE KEY" in text:
        yield from _private_keys(text)
    if "PuTTY-User-Key-File-" in text:
        last = max((found.end() for found in _PUTTY_END.finditer(text)), default=0)
        for begin in _PUTTY.finditer(text):
            yield TextSpan(begin.start(), last if last > begin.start() else len(text), "private-key")


def _private_keys(text: str) -> Iterator[TextSpan]:
    ends = [found.span() for found in _END.finditer(text)]
    done = 0
    for begin in _BEGIN.finditer(text):
        if begin.start() < done:
            continue
        nearest = bisect_left(ends, begin.span())
        body = _BODY.match(text, begin.end())
        done = ends[nearest][1] if nearest < len(ends) else body.end() if body else begin.end()
        yield TextSpan(begin.start(), done, "private-key")
    for start, end in ends:
        if start >= done:
            head = text[max(0, start - _LONGEST_KEY, done) : start]
            foreign = max((found.end() for found in _NOT_BODY.finditer(head)), default=0)
            yield TextSpan(start - len(head) + foreign, end, "private-key")
            done = end


_RUN = re.compile(r"[A-Za-z0-9_\-.=+/]{20,}")
_OPENAI = "T3BlbkFJ"  # "OpenAI" in base64, in the middle of every older key of theirs


def web_tokens(text: str) -> Iterator[TextSpan]:
    """Signatures are included, tokens may be cut; also OpenAI keys that stick to other words."""
    if "eyJ" not in text and _OPENAI not in text:
        return
    for run in _RUN.finditer(text):
        word = run.group()
        start = word.find("eyJ")
        if start >= 0 and "." in word[start + 10 :]:
            yield TextSpan(run.start() + start, run.start() + len(word.rstrip(".")), "jwt")
        start = word.find("sk-") if _OPENAI in word else -1
        if start >= 0:
            yield TextSpan(run.start() + start, run.end(), "api-key")


_HINTS = re.compile(
    "|".join(
        [
            *(
                re.escape(each)
                for each in dict.fromkeys(anchor for token in TOKENS for anchor in token.anchors)
            ),
            *(re.escape(each) for each in ("PRIVATE KEY", "PuTTY-User-Key-File-", "eyJ", _OPENAI)),
            r"[\"'{\[]",  # quoted words and JSON
            f"(?i:{'|'.join((*STEMS, 'basic'))})",
        ]
    )
)


def _may_hold_secret(text: str) -> bool:
    """Each secret begins with one of these hints."""
    return _HINTS.search(text) is not None
