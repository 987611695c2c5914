"""What is wrong in a file that is not TOML, and the corrected line where it can be known."""

from __future__ import annotations

import re

from agent.domain.condition_text import STRAIGHT_QUOTES

_KEY = r"[\w.\"'-]+"
# Each run of spaces is matched in one place, because a mistake may be in a long line.
_HEADER = re.compile(r"\[\[?\s*([\w.-]+)\s*(?:\]\]?\s*)?(?:#.*)?\Z")
_PAIR = re.compile(rf"""({_KEY})\s*=((?:"[^"]*"|'[^']*'|[^#"'])*)(#.*)?\Z""")
_WITH_COLON = re.compile(rf"({_KEY})\s*:\s*(.+)\Z")
_ENTRY = re.compile(r"([\w@#.-]+)\s*,?\Z")
BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on", "1"), "true"),
    **dict.fromkeys(("false", "no", "off", "0"), "false"),
}
"""What people write for a boolean, in lower case."""
_SINGLE_TABLES = {"defaults", "grants"}
_NOTHING = {"none", "null", "nil"}
_VALUE = re.compile(r"true|false|[-+]?\d[\d_]*(?:\.\d+)?|\d{4}-\d\d-\d\d.*|([\"']).*\1|\[.*\]|\{.*\}")
_WORD_OR_STRING = re.compile(r""""[^"]*"|'[^']*'|[^\s,\[\]"']+""")


def syntax_problem(error: Exception, filename: str, text: str) -> str:
    """A line `checkpoints.toml:12: …`."""
    if text.startswith("\ufeff"):
        words = "the file begins with a byte order mark (BOM); save it as UTF-8 without one"
        return f"{filename}:1: {words}"
    at = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", str(error))
    if at is None:
        return f"{filename}:1: {error}"
    lines = text.split("\n")
    number = int(at[1]) if at[1] else len(lines)
    written = lines[number - 1].strip()
    if found := _correction(written):
        return f"{filename}:{number}: {found}"
    where = f"column {at[2]}" if at[2] else "at the end"
    return f"{filename}:{number}: {_in_words(str(error)[: at.start()], written)} ({where})"


def _in_words(problem: str, written: str) -> str:
    key = written.split("=", maxsplit=1)[0].strip()
    if problem == "Cannot overwrite a value":
        return f"{key} is written twice in this table; keep one"
    if problem.startswith("Unclosed array"):
        return 'a list is not closed; write "]" behind its last entry'
    if problem.startswith(("Illegal character", "Unterminated string")) and "=" in written:
        return f"the text of {key} is not closed; write a quote behind it"
    return problem


def _correction(written: str) -> str | None:
    straight = written.translate(STRAIGHT_QUOTES)
    if straight != written:
        return f"quotes must be straight; write {straight}"
    if header := _HEADER.match(written):
        brackets = written.count("["), written.count("]")
        meant = f"[{header[1]}]" if header[1] in _SINGLE_TABLES else f"[[{header[1]}]]"
        return None if brackets in ((1, 1), (2, 2)) else f"write {meant}"
    if pair := _PAIR.match(written):
        key, value, comment = pair.groups()
        return _value_problem(key, value.strip(), comment or "")
    if pair := _WITH_COLON.match(written):
        return f'a key is followed by "="; write {pair[1]} = {pair[2]}'
    if entry := _ENTRY.match(written):
        return f'a text has quotes; write "{entry[1]}"'
    return None


def _value_problem(key: str, value: str, comment: str) -> str | None:
    if not value:
        shown = f'; a "#" begins a comment, so write {key} = "{comment}"' if comment else ""
        return f"{key} has no value{shown}"
    if value.endswith((";", ",")) and _VALUE.fullmatch(value[:-1].rstrip()):
        return f'nothing follows a value, not even "{value[-1]}"; write {key} = {value[:-1].rstrip()}'
    if "\\" in value and re.fullmatch(r'"[^"]*"', value):
        return f"a text with backslashes has single quotes; write {key} = {_literal(value[1:-1])}"
    if value.startswith("[") and value.endswith("]"):
        listed = _WORD_OR_STRING.sub(_quoted, value)
        return None if listed == value else f"texts have quotes; write {key} = {listed}"
    if _VALUE.fullmatch(value) or value[0] in "\"'[{":
        return None
    if value.lower() in BOOLEANS:
        return f"{value} is no TOML; write {key} = {BOOLEANS[value.lower()]}"
    if value.lower() in _NOTHING:
        return f"TOML has no {value}; leave {key} out"
    text = _literal(value) if '"' in value else f'"{value}"'
    return f"a text or a time with its unit has quotes; write {key} = {text}"


def _quoted(found: re.Match[str]) -> str:
    return found[0] if _VALUE.fullmatch(found[0]) else f'"{found[0]}"'


def _literal(text: str) -> str:
    return f"'''{text}'''" if "'" in text else f"'{text}'"
