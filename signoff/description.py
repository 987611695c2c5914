"""One-line descriptions of actions, without secrets.

A description is stored with its long values whole, between two marks. Where it is shown, secrets are looked for in all
of it, and only then are those values cut (`shown`): nobody recognises half a secret.
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from signoff.canonical import canonical_bytes
from signoff.formats import NO_MONEY, Money
from signoff.masks import Find, TextSpan, mask_end, mask_piece, merge_spans
from signoff.values import COMMAND

MAX_VALUE = 200
"""Shown characters of one value; the rest is counted."""

MAX_QUOTED = 60
"""Shown characters of a value within the operator's text."""

MAX_LINE = 600
"""Shown characters of a tool with its arguments."""

MAX_STORED_VALUE = 500
"""Stored characters of one value: enough to recognise each secret that begins within those shown."""

MAX_STORED = 4_000
"""Stored characters of a description, so that a list's row has a bounded price."""

# Unicode's isolates, made for values within a sentence. A value cannot have them.
_BEGIN, _END = "\u2068", "\u2069"
_NO_MARKS = str.maketrans({_BEGIN: "⟦U+2068⟧", _END: "⟦U+2069⟧"})
_MARK = re.compile(f"[{_BEGIN}{_END}]")

# What could seem to end a quotation is shown as its code, and everything else exactly.
_LIKE_QUOTES = str.maketrans({each: f"⟦U+{ord(each):04X}⟧" for each in "‟‶″❝❞❠〝〞〟＂ʺ˝ˮ״🙶🙷🙸"})
_OUR_QUOTES = str.maketrans({each: f"⟦U+{ord(each):04X}⟧" for each in "“”"})
_PAIRS = ("“”", "«»")
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,-]{0,40}\Z", re.ASCII)
_CUT = re.compile(r"… \(\+(\d{1,9}) characters\)\Z", re.ASCII)
_SEPARATOR = re.compile(r"[\s\"'<>,;(){}\[\]]")
_LONGEST_WORD = 100
_WORD = re.compile(
    r"(?!(?:yes|no|none|null|true|false|empty)\Z)[A-Za-z][\w./@+-]{0,59}\Z", re.ASCII | re.IGNORECASE
)


def _nothing(_: str) -> Sequence[TextSpan]:
    return ()


class InWords(NamedTuple):
    """An action in words, as they are stored. ``whole``: the arguments whose values are not cut there."""

    text: str
    whole: frozenset[str]


def action_in_words(
    tool: str,
    arguments: Mapping[str, Any],
    money: Money = NO_MONEY,
    called: Callable[[str], str] = str,
    *,
    hidden: int = 0,
) -> InWords:
    """`deploy · region: eu, count: 5`, and last a gate's command. `arguments` are already masked.

    Those that cannot be shown are counted, with the ``hidden`` ones. ``called``: what an argument is called.
    """
    command = command_line(arguments)
    told = {name: value for name, value in arguments.items() if command is None or name != COMMAND}
    last = [_cuttable(command)] if command is not None else []
    named: list[str] = []
    whole: set[str] = set()
    room = MAX_LINE - len(tool) - sum(len(shown(each)) for each in last)
    for name, value in told.items():
        piece = named_value(name, value, money.below("args", name), called(name))
        room -= len(shown(piece)) + 2
        if room < 0:
            hidden += len(told) - len(named)
            break
        named.append(piece)
        if is_whole(piece):
            whole.add(name)
    if hidden:
        named.append(f"… (+{hidden:,} argument{'' if hidden == 1 else 's'})")
    return InWords(" · ".join([tool, *([", ".join(named)] if named else []), *last]), frozenset(whole))


def named_value(name: str, value: Any, money: Money = NO_MONEY, label: str = "") -> str:
    """`region: eu`. What is not one plain word is quoted: no text can pass for the next argument.

    ``label``: the operator's word for it.
    """
    plain = isinstance(value, str) and _WORD.match(value) and money.shown(value) is None
    own = name if _WORD.match(name) else shown_value(name)
    return f"{own if label in ('', name) else label}: {value if plain else shown_value(value, money)}"


def command_line(arguments: Mapping[str, Any]) -> str | None:
    """A gate's command, as a shell would print it."""
    words = arguments.get(COMMAND)
    if not isinstance(words, list | tuple) or not words or not all(isinstance(each, str) for each in words):
        return None
    return shlex.join(words)


def without_command(description: str, arguments: Mapping[str, Any]) -> str:
    """A shown description, for places that show the command as code."""
    command = command_line(arguments)
    return description if command is None else description.removesuffix(f" · {shown(_cuttable(command))}")


def quoted(text: str) -> str:
    """Quote a text so that it cannot close its own quotation marks."""
    return _between_marks(text, own_words)


def _between_marks(text: str, stored: Callable[[str], str]) -> str:
    text = text.translate(_LIKE_QUOTES)
    free = next((pair for pair in _PAIRS if pair[0] not in text and pair[1] not in text), None)
    if free is None:
        free, text = _PAIRS[0], text.translate(_OUR_QUOTES)
    return f"{free[0]}{stored(text)}{free[1]}"


def own_words(text: str) -> str:
    """A text that is stored within a bound, and cut nowhere else."""
    return bounded(_MARK.sub("", text), MAX_STORED)


def shown_value(value: Any, money: Money = NO_MONEY) -> str:
    """Quote texts, except numbers and dates. A long value is marked."""
    if (amount := money.shown(value)) is not None:
        return amount
    if isinstance(value, str) and not _NUMBER.match(value):
        quotation = _between_marks(value.translate(_NO_MARKS), _within_bound)
        return quotation if len(quotation) <= MAX_QUOTED + 2 else f"{_BEGIN}{quotation}{_END}"
    return _cuttable(_text(value))


def is_whole(piece: str) -> bool:
    """Whether a value in words has no long text, which `shown` would cut."""
    return _BEGIN not in piece


def _within_bound(text: str) -> str:
    return bounded(text, MAX_STORED_VALUE)


def shown(text: str, find: Find = _nothing) -> str:
    """Mask what `find` finds in a stored description, then cut its long values."""
    whole = _MARK.sub("", text)
    spans = merge_spans(whole, find(whole))
    pieces: list[str] = []
    start, inside = 0, False
    for part in re.split(f"([{_BEGIN}{_END}])", text):
        if _MARK.fullmatch(part):
            inside = part == _BEGIN
        elif part:
            masked = mask_piece(whole, start, start + len(part), spans)
            pieces.append(_cut(masked) if inside else masked)
            start += len(part)
    return "".join(pieces)


def bounded(text: str, limit: int) -> str:
    """Cut for the database, between words if possible, because nobody recognises half a secret."""
    if len(text) <= limit:
        return text
    return shorten(text, len(whole_words(text[:limit])))


def whole_words(cut: str) -> str:
    """A cut text without its last word, unless that is long."""
    begin = max(0, len(cut) - _LONGEST_WORD)
    return cut[: max((found.start() for found in _SEPARATOR.finditer(cut, begin)), default=len(cut))]


def word_start(text: str, at: int) -> int:
    """Return where the word around a place begins, however long it is."""
    return max((found.end() for found in _SEPARATOR.finditer(text, 0, at)), default=0)


def shorten(text: str, limit: int = MAX_VALUE) -> str:
    """Cut a text to `limit` characters, and count the rest (`… (+12 characters)`)."""
    return text if len(text) <= limit else f"{text[:limit]}… (+{len(text) - limit} characters)"


def plain(value: Any) -> str:
    """Write a text as it is, and any other value as canonical JSON, in at most 200 characters."""
    return shorten(_text(value))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_bytes(value).decode()


def _cuttable(text: str) -> str:
    text = text.translate(_NO_MARKS)
    return text if len(text) <= MAX_VALUE else f"{_BEGIN}{bounded(text, MAX_STORED_VALUE)}{_END}"


def _cut(value: str) -> str:
    """A mask is never cut through."""
    mark = value[-1:] if value[:1] + value[-1:] in _PAIRS else ""
    text = value[1:-1] if mark else value
    known = _CUT.search(text)
    text, left = (text[: known.start()], int(known[1])) if known else (text, 0)
    end = mask_end(text, MAX_QUOTED if mark else MAX_VALUE)
    left += max(0, len(text) - end)
    if not left:
        return value
    return f"{value[: len(mark)]}{text[:end]}…{mark} (+{left} characters)"
