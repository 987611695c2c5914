"""Find conditions that look at a part of a shell command: what follows can write a file or run another program."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.domain.condition_text import COMMENT, STRING

_NAMES = frozenset(
    {"command", "commands", "command_line", "cmd", "script", "argv", "shell_command", "signoff_command"}
)
_PARTIAL = frozenset({"startsWith", "endsWith", "contains"})
_ROOTS = frozenset({"args", "facts", "agent", "requester"})
_CEL = re.compile(rf"{COMMENT}|\s+|(?P<text>{STRING})|(?P<name>[A-Za-z_]\w*)|(?P<sign>\S)")
_CLOSING = {")": "(", "]": "["}
_WIDE_ESCAPES = frozenset("SWDP")
_ESCAPE = re.compile(
    r"\\(?:[pP](?:\{[^}]*\}|.)|x(?:\{[^}]*\}|..)|u(?:\{[^}]*\}|.{4})|U(?:\{[^}]*\}|.{8})|.)", re.DOTALL
)
_CLASS = re.compile(r"\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]", re.DOTALL)
_GROUP = re.compile(r"\((?:\?(?P<flags>[A-Za-z-]*)(?P<end>[:)])|\?P?<\w+>)?")
_REPEAT = re.compile(r"(?:\*|\+|\?|\{(?P<least>\d+)(?P<comma>,?)(?P<most>\d*)\})[?]?")


def partial_comparison(when: str) -> str | None:
    """What the condition does with a part of a command (`args.command.startsWith(…)`), if anything."""
    tokens = [(found[0], found.lastgroup) for found in _CEL.finditer(when) if found.lastgroup]
    words = [text for text, _ in tokens]
    commands = list(_commands(words))
    for begin, end in commands:
        name = "".join(words[begin:end])
        if words[end : end + 1] == ["["]:
            return f"{name}[…]"
        if begin and words[begin - 1] == "in":
            return f"in {name}"
    for index, word in enumerate(words):
        if word not in (*_PARTIAL, "matches") or words[index + 1 : index + 2] != ["("]:
            continue
        close = _matching(words, index + 1, 1)
        given: Sequence[tuple[str, str]] = tokens[index + 2 : close]
        if words[index - 1 : index] == ["."]:
            subject = words[_receiver(words, index - 1) : index - 1]
        else:
            subject, given = _split(given)
        if not _is_command(subject, bool(commands)):
            continue
        if word != "matches" or len(given) != 1 or given[0][1] != "text" or not _is_whole(_read(given[0][0])):
            return f"{''.join(subject)}.{word}(…)"
    return None


def mentions_command(when: str) -> bool:
    """Return whether a condition reads an argument that holds a shell command, by its name."""
    return any(_commands([found[0] for found in _CEL.finditer(when) if found.lastgroup]))


def _commands(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where a command is read: `args.command`, `args["command"]`."""
    for index, word in enumerate(words):
        if word != "args":
            continue
        rest = words[index + 1 : index + 4]
        if rest[:1] == ["."] and len(rest) > 1 and rest[1].casefold() in _NAMES:
            yield index, index + 3
        if (
            rest[:1] == ["["]
            and len(rest) > 2
            and rest[2] == "]"
            and rest[1].strip("\"'").casefold() in _NAMES
        ):
            yield index, index + 4


def _is_command(subject: Sequence[str], any_command: bool) -> bool:
    """A loop's variable may stand for a command."""
    return any(_commands(subject)) or (any_command and _ROOTS.isdisjoint(subject))


def _receiver(words: Sequence[str], dot: int) -> int:
    """Where the expression begins that ends before this dot."""
    begin = dot - 1
    while begin > 0:
        if words[begin] in _CLOSING:
            begin = _matching(words, begin, -1)
            if begin > 0 and (words[begin - 1].isidentifier() or words[begin - 1] in _CLOSING):
                begin -= 1
                continue
        if begin > 0 and words[begin - 1] == ".":
            begin -= 2
            continue
        break
    return max(begin, 0)


def _matching(words: Sequence[str], at: int, step: int) -> int:
    depth = 0
    for index in range(at, len(words) if step > 0 else -1, step):
        depth += (words[index] in _CLOSING.values()) - (words[index] in _CLOSING)
        if depth == 0:
            return index
    return len(words) if step > 0 else 0


def _split(
    given: Sequence[tuple[str, str]],
) -> tuple[list[str], Sequence[tuple[str, str]]]:
    """The first argument of `matches(text, pattern)`, and the rest."""
    words = [text for text, _ in given]
    depth = 0
    for index, word in enumerate(words):
        depth += (word in _CLOSING.values()) - (word in _CLOSING)
        if word == "," and depth == 0:
            return words[:index], given[index + 1 :]
    return words, []


def _read(text: str) -> str:
    """A text of CEL, whose escapes are those of Python; unreadable ones are no pattern that is known to end."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return ""
    return value if isinstance(value, str) else ""


@dataclass(frozen=True)
class _Part:
    """`starts`, `ends`: only at the start and end of the text. `wide`: some of it fits nearly any character.

    `open`: as many of them as there are.
    """

    starts: bool = False
    ends: bool = False
    wide: bool = False
    open: bool = False


def _is_whole(pattern: str) -> bool:
    """Whether the regular expression fits whole texts only, and none of any length that it does not spell out."""
    try:
        part, end = _alternatives(pattern, 0)
    except ValueError:
        return False
    return end == len(pattern) and part.starts and part.ends and not part.open


def _alternatives(pattern: str, at: int) -> tuple[_Part, int]:
    found: list[_Part] = []
    while True:
        parts, at = _sequence(pattern, at)
        found.append(
            _Part(
                bool(parts) and parts[0].starts,
                bool(parts) and parts[-1].ends,
                any(each.wide for each in parts),
                any(each.open for each in parts),
            )
        )
        if pattern[at : at + 1] != "|":
            break
        at += 1
    return (
        _Part(
            all(each.starts for each in found),
            all(each.ends for each in found),
            any(each.wide for each in found),
            any(each.open for each in found),
        ),
        at,
    )


def _sequence(pattern: str, at: int) -> tuple[list[_Part], int]:
    """Raises ValueError for flags that change what `^`, `$` or spaces mean."""
    parts: list[_Part] = []
    while at < len(pattern) and pattern[at] not in "|)":
        part, at = _atom(pattern, at)
        if repeat := _REPEAT.match(pattern, at):
            at = repeat.end()
            least = {"*": 0, "?": 0, "+": 1}.get(repeat[0][0], int(repeat["least"] or 0))
            once = (
                repeat[0][0] == "?"
                or (not repeat["comma"] and repeat["least"] in ("0", "1"))
                or repeat["most"] in ("0", "1")
            )
            sure = least > 0
            part = _Part(
                part.starts and sure, part.ends and sure, part.wide, part.open or (part.wide and not once)
            )
        if part is not _FLAGS:
            parts.append(part)
    return parts, at


_FLAGS = _Part()


def _atom(pattern: str, at: int) -> tuple[_Part, int]:
    match pattern[at]:
        case "^":
            return _Part(starts=True), at + 1
        case "$":
            return _Part(ends=True), at + 1
        case ".":
            return _Part(wide=True), at + 1
        case "[":
            found = _CLASS.match(pattern, at)
            if found is None or "[" in found[0][1:].replace("[:", ""):
                raise ValueError("is not closed, or has classes within")
            wide = found[0].startswith("[^") or any(f"\\{each}" in found[0] for each in _WIDE_ESCAPES)
            return _Part(wide=wide), found.end()
        case "\\":
            found = _ESCAPE.match(pattern, at)
            if found is None:
                raise ValueError("ends in an escape")
            name = found[0][1]
            return _Part(name == "A", name == "z", name in _WIDE_ESCAPES), found.end()
        case "(":
            return _group(pattern, at)
        case _:
            return _Part(), at + 1


def _group(pattern: str, at: int) -> tuple[_Part, int]:
    opening = _GROUP.match(pattern, at)
    if opening is None or set(opening["flags"] or "") & set("mx"):
        raise ValueError("has flags that change what ^ and $ are")
    if opening["end"] == ")":
        return _FLAGS, opening.end()
    part, end = _alternatives(pattern, opening.end())
    if pattern[end : end + 1] != ")":
        raise ValueError("is not closed")
    return part, end + 1
