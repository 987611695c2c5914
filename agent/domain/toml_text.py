"""Line numbers of tables and keys, which tomllib does not keep; the nearest for dotted keys."""

import re
from dataclasses import dataclass, field

# Strings first: a "#" or bracket inside is no comment or array.
_HIDDEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*', re.DOTALL
)
_HEADER = re.compile(r"\s*\[\[?([\w.\"' \t-]+)\]")
_KEY = re.compile(r"\s*(?:\"([^\"\n]*)\"|'([^'\n]*)'|([\w-]+))\s*[.=]")


@dataclass
class _Section:
    name: str
    line: int
    keys: dict[str, int] = field(default_factory=dict)


class Lines:
    """Line numbers, from 1."""

    def __init__(self, text: str) -> None:
        self._sections = [_Section("", 1)]
        depth = 0
        shown = _HIDDEN.sub(_blank, text).split("\n")
        for number, (line, seen) in enumerate(zip(text.split("\n"), shown, strict=True), 1):
            if depth == 0:
                self._note(number, line, seen)
            if depth or "=" in seen:
                depth = max(0, depth + sum((c in "[{") - (c in "]}") for c in seen))

    def of(self, table: str, index: int = 0, key: str | None = None) -> int:
        """The key's line in the index-th such table; else the table's head; else the first."""
        sections = [section for section in self._sections if section.name == table]
        top = self._sections[0].keys
        if index >= len(sections):
            return top.get(table, 1)
        section = sections[index]
        return section.keys.get(key, section.line) if key is not None else section.line

    def _note(self, number: int, line: str, seen: str) -> None:
        if header := _HEADER.match(line) if seen.lstrip().startswith("[") else None:
            self._sections.append(_Section(header.group(1).strip("\"' \t"), number))
        elif key := _KEY.match(line) if seen.strip() else None:
            name = next(group for group in key.groups() if group is not None)
            self._sections[-1].keys.setdefault(name, number)


def _blank(match: re.Match[str]) -> str:
    """Line breaks stay."""
    text = match.group()
    return "\n" * text.count("\n") if text[0] == "#" or "\n" in text else '"' + " " * (len(text) - 2) + '"'
