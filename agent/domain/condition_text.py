"""The text of a condition in CEL: the patterns it gives to `matches`, and what its author probably meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

STRING = (
    r"""\b[bB]?[rR][bB]?(?:\"{3}[\s\S]*?\"{3}|'{3}[\s\S]*?'{3}|"[^"\n]*"|'[^'\n]*')"""
    r"""|(?:\b[bB])?(?:\"{3}(?:\\[\s\S]|[^\\])*?\"{3}|'{3}(?:\\[\s\S]|[^\\])*?'{3}"""
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
)
"""A text or bytes of CEL, in which nothing is a call, a name or a comment."""
COMMENT = r"//[^\n]*"
_HIDDEN = f"{COMMENT}|{STRING}"
HIDDEN = re.compile(_HIDDEN)
CALL_OF_DURATION = re.compile(rf"{_HIDDEN}|(?P<call>\bduration(?=\s*\())")

STRAIGHT_QUOTES = str.maketrans("“”„‟«»‘’‚‛", '""""""' + "''''")

_MATCHES = re.compile(r"\bmatches\s*\(")
_NUMBER = re.compile(r"""(["'])\s*([-+]?\d+(?:\.\d+)?)\s*\1\Z""")
_STRANGE_ESCAPE = re.compile(r"""["'](?:[^\\]|\\[abfnrtv\\?"'`xXuU0-3])*\\[^abfnrtv\\?"'`xXuU0-3]""")
_STRING = "\ue000"
"""Stands for a string or comment while the rest is corrected."""
_PATH = rf"(?:[\w.\[\]]|{_STRING})+"
_LITERAL = rf"{_STRING}|[-+]?\d+(?:\.\d+)?|true|false"
_OPERATOR = r"\s*(?:[<>]=?|[=!]=)\s*"
_COMPARISON = re.compile(
    rf"(?<![\w.])args\.(?P<before>\w+){_OPERATOR}(?P<right>{_LITERAL})(?![\w.(])"
    rf"|(?<![\w.])(?P<left>{_LITERAL}){_OPERATOR}args\.(?P<behind>\w+)(?![\w.(\[])"
)
_BOUND = re.compile(
    rf"(?<![\w.])(?P<before>(?:args|facts)\.[\w.]+)\s*[<>]=?\s*(?P<right>{_STRING})"
    rf"|(?P<left>{_STRING})\s*[<>]=?\s*(?P<behind>(?:args|facts)\.[\w.]+)(?![\w.(\[])"
)
_WORD = r"(?<![.\w]){}(?!\w)"


def patterns(text: str) -> Iterator[tuple[str, bool]]:
    """The second argument of `matches`, or the only one of a method, and whether it is written out."""
    hidden = HIDDEN.sub(lambda found: (" " if found[0][0] == "/" else '"') * len(found[0]), text)
    for call in _MATCHES.finditer(hidden):
        start, end = _arguments(hidden, call.end())[-1]
        yield text[start:end].strip(), re.fullmatch(r'["\s+()]*"["\s+()]*', hidden[start:end]) is not None


def _arguments(hidden: str, start: int) -> list[tuple[int, int]]:
    found, depth = [], 0
    for at in range(start, len(hidden)):
        letter = hidden[at]
        if depth == 0 and letter in ",)":
            found.append((start, at))
            start = at + 1
            if letter == ")":
                break
        depth += (letter in "([{") - (letter in ")]}")
    return found or [(start, len(hidden))]


def comparisons(text: str) -> Iterator[tuple[str, str]]:
    """An argument's name, and the literal that it is compared with."""
    code, strings = _apart(text)
    for found in _COMPARISON.finditer(code):
        side = "right" if found["right"] else "left"
        literal, at = found[side], found.start(side)
        name = found["before"] or found["behind"]
        yield name, strings[code.count(_STRING, 0, at)] if literal == _STRING else literal


@dataclass(frozen=True, slots=True)
class Correction:
    """`because`: a sentence without its end."""

    text: str
    because: str

    @property
    def sentence(self) -> str:
        """Without the text if it does not fit a line."""
        return self.because if "\n" in self.text else f"{self.because}; write {self.text}"


def numbers_as_text(text: str) -> Iterator[tuple[str, str, str]]:
    """A path, the text that bounds it, and the number in the text. Texts compare letter by letter: "9" is over "10"."""
    code, strings = _apart(text)
    for found in _BOUND.finditer(code):
        side = "right" if found["right"] else "left"
        literal = strings[code.count(_STRING, 0, found.start(side))]
        if number := _NUMBER.match(literal):
            yield found["before"] or found["behind"], literal, number[2]


def correction(text: str) -> Correction | None:
    """What other languages write differently."""
    if _STRING in text:
        return None
    because: list[str] = []
    code, strings = _apart(text)
    straight = code.translate(STRAIGHT_QUOTES)
    if straight != code:
        because.append("quotes must be straight")
    code, strings = _apart(_together(straight, strings))
    for each in _CORRECTIONS:
        if found := each.wrong.search(code):
            because.append(each.because.format(" ".join(found[0].split())))
        while (corrected := each.wrong.sub(each.right, code, count=1)) != code:
            code = corrected
    raw = [f"r{each}" if _STRANGE_ESCAPE.match(each) else each for each in strings]
    if raw != strings:
        because.append("a text with backslashes is written r'…'")
    return Correction(_together(code, raw), ", ".join(because)) if because else None


def _apart(text: str) -> tuple[str, list[str]]:
    strings: list[str] = []

    def keep(found: re.Match[str]) -> str:
        strings.append(found[0])
        return _STRING

    return HIDDEN.sub(keep, text), strings


def _together(code: str, strings: list[str]) -> str:
    rest = iter(strings)
    return re.sub(_STRING, lambda _: next(rest), code)


@dataclass(frozen=True, slots=True)
class _Mistake:
    wrong: re.Pattern[str]
    right: str | Callable[[re.Match[str]], str]
    because: str
    """With `{}` for what was found."""


def _mistake(wrong: str, right: str | Callable[[re.Match[str]], str], because: str) -> _Mistake:
    return _Mistake(re.compile(wrong), right, because)


def _instead(wrong: str, right: str) -> _Mistake:
    return _mistake(wrong, right, f'"{{}}" is written "{right}" in CEL')


def _negated(found: re.Match[str]) -> str:
    """`not` reaches as far as the next `&&`, `||` or bracket."""
    operand = found[1].rstrip()
    simple = re.fullmatch(rf"{_PATH}|\(.*\)", operand) is not None
    return f"!{operand if simple else f'({operand})'}{found[1][len(operand) :]}"


_CORRECTIONS = (
    _instead(r"!==", "!="),
    _instead(r"===", "=="),
    _instead(r"<>", "!="),
    _instead(r"(?<![=!<>])=(?!=)", "=="),
    _instead(_WORD.format("(?i:and)"), "&&"),
    _instead(_WORD.format("(?i:or)"), "||"),
    _instead(r"(?<!&)&(?!&)", "&&"),
    _instead(r"(?<!\|)\|(?!\|)", "||"),
    _instead(_WORD.format(r"(?i:is\s+not)"), "!="),
    _instead(_WORD.format("(?i:is)"), "=="),
    _instead(_WORD.format("(?:True|TRUE|yes)"), "true"),
    _instead(_WORD.format("(?:False|FALSE|no)"), "false"),
    _instead(_WORD.format("(?:None|NULL|Null|nil|undefined)"), "null"),
    _instead(_WORD.format(r"len(?=\s*\()"), "size"),
    _mistake(
        rf"({_PATH})\s+(?i:not\s+in)\s+({_PATH}|\[[^\]]*\])",
        lambda found: f"!({found[1]} in {found[2]})",
        '"x not in y" is written "!(x in y)" in CEL',
    ),
    _mistake(
        _WORD.format(r"(?i:not)") + r"\s*((?:\([^()]*\)|[^()&|?:,])+)",
        _negated,
        '"not" is written "!" in CEL',
    ),
    _mistake(r"(?<=\d),(?=\d{3}(?!\d))", "", "a number has no commas"),
    _mistake(r"[$€£](?=\d)", "", "a number has no currency sign"),
    _mistake(r";\s*\Z", "", 'there is no ";" at the end'),
    _mistake(
        rf"(?<=[\w)\]])\s+(contains|startsWith|endsWith|matches)\s+({_PATH})",
        lambda found: f".{found[1]}({found[2]})",
        'a function is called as in args.name.contains("x")',
    ),
    _mistake(
        r"(?<![.\w])in\s*\(([^()]*,[^()]*)\)",
        lambda found: f"in [{found[1]}]",
        "a list has square brackets",
    ),
)
