"""`when`: a condition in CEL (Common Expression Language). In doubt the checkpoint applies.

Only a boolean `false` exempts; an error, a missing field, another type or too long an evaluation does not.

cel-rust compares int with double by value, as JSON needs, but its arithmetic is strict about types: write
`double(facts.price) * 1.2`. Regular expressions run in linear time. Loops have no limit, so their work is bounded in
advance. Its `duration` accepts "nans" and "1h?", so a stricter one replaces it.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from agent.domain.condition_text import CALL_OF_DURATION, correction, patterns
from agent.domain.spelling import meant
from signoff.canonical import plain_json

if TYPE_CHECKING:
    import cel

VARIABLES = frozenset({"args", "facts", "agent", "requester"})
# fmt: off
FUNCTIONS = frozenset({
    "size", "contains", "startsWith", "endsWith", "matches", "string", "int", "uint", "double", "bytes",
    "duration", "timestamp", "getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek",
    "getDayOfYear", "getHours", "getMinutes", "getSeconds", "getMilliseconds", "type", "dyn",
})
# fmt: on
MAX_LENGTH = 4_000

MAX_WORK = 1_000_000
"""Worst-case steps of one evaluation: well below a second, at a measured 0.4 µs each."""

_DURATION = re.compile(r"([-+]?)((?:(?:\d+(?:\.\d*)?|\.\d+)(?:h|ms|us|m|s))+|0)\Z", re.ASCII)
_PART = re.compile(r"([\d.]+)(h|ms|us|m|s)")
_MICROSECONDS = {"h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1000, "us": 1}
_CHECKED = "checked_duration"
_LOOP = re.compile(r"\b(all|exists|exists_one|map|filter)\s*\(\s*([A-Za-z_]\w*)\s*,")
_POSITION = re.compile(r"<input>:(\d+):(\d+): (?:Syntax error: )?(.+?)(?: expecting \{.*)?$", re.MULTILINE)


@cache
def _cel() -> ModuleType:
    """The library, when a condition or a pattern needs it, without its command line.

    The package imports that as well, and with it the 160 modules of prompt_toolkit: 8 MB. Whoever wants it later can
    still import it.
    """
    if "cel" in sys.modules:
        import cel  # noqa: PLC0415 - as said
    else:
        sys.modules["cel.cli"] = ModuleType("cel.cli")
        try:
            import cel  # noqa: PLC0415
        finally:
            sys.modules.pop("cel.cli", None)  # another thread may have been here
        vars(cel).pop("cli", None)
    return cel


@dataclass(frozen=True)
class Applies:
    """`because`: a phrase for the audit log."""

    applies: bool
    because: str


@dataclass(frozen=True)
class Subject:
    """An action with its facts, agent and requester, as the conditions of checkpoints read it."""

    args: Mapping[str, Any]
    facts: Mapping[str, Any] | None
    agent: str
    requester: str | None
    is_plain: bool = False
    """Plain JSON (`signoff.canonical`)."""
    _contexts: "dict[frozenset[str], cel.Context]" = field(default_factory=dict, init=False, compare=False)

    def context(self, variables: frozenset[str]) -> "cel.Context":
        """Passing variables takes most of a condition's time. Raises MalformedArguments."""
        if variables not in self._contexts:
            known = self._known | {"agent": self.agent, "requester": self.requester}
            read = {name: value for name, value in known.items() if name in variables}
            self._contexts[variables] = _cel().Context(variables=read, functions={_CHECKED: _duration})
        return self._contexts[variables]

    @cached_property
    def weight(self) -> int:
        return _weight(self._known)

    @cached_property
    def _known(self) -> dict[str, Any]:
        known = {"args": self.args, "facts": self.facts or {}}
        copy: dict[str, Any] = known if self.is_plain else plain_json(known)
        return copy


@dataclass(frozen=True)
class When:
    """A condition made by `compile_when`; thread-safe."""

    text: str
    variables: frozenset[str]
    _loops: int
    _program: "cel.Program"

    @property
    def uses_facts(self) -> bool:
        return "facts" in self.variables

    def applies(self, subject: Subject) -> Applies:
        """The condition holds, or may hold. Never raises."""
        try:
            if self._loops and subject.weight**self._loops > MAX_WORK:
                return Applies(True, f"when ({self.text}) would take too long on arguments of this size")
            value = self._program.execute(subject.context(self.variables))
        except KeyError as error:
            return Applies(True, f"when ({self.text}) needs the missing field {error}")
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic is not an Exception
            return Applies(True, f"when ({self.text}) failed: {_failure(error)}")
        if value is False:
            return Applies(False, f"when ({self.text}) is false")
        if value is True:
            return Applies(True, f"when ({self.text}) is true")
        return Applies(True, f"when ({self.text}) gave a {type(value).__name__}, not a boolean")


@lru_cache(maxsize=1024)
def compile_when(text: str) -> When:
    """Raises ValueError for what would make every action ask, with the corrected text where it can be known."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f"is longer than {MAX_LENGTH} characters")
    try:
        return _compiled(text)
    except ValueError as error:
        raise ValueError(_with_correction(text, str(error))) from None


def _compiled(text: str) -> When:
    try:
        program = _cel().compile(text)
    except ValueError as error:
        raise ValueError(_where(str(error))) from None
    used = set(program.variables())
    loops = _LOOP.findall(text)
    _known("variable", used - {bound for _, bound in loops}, VARIABLES)
    functions = set(program.functions())
    _known("function", {name for name in functions if name.isidentifier() and name[0] != "_"}, FUNCTIONS)
    if "duration" in functions:
        checked = CALL_OF_DURATION.sub(lambda found: _CHECKED if found["call"] else found[0], text)
        program = _cel().compile(checked)
        if "duration" in program.functions():
            raise ValueError("write `duration` directly in front of its parenthesis")
    for pattern, is_written_out in patterns(text):
        _check_pattern(pattern, is_written_out)
    return When(text, frozenset(used & VARIABLES), _exponent([name for name, _ in loops], functions), program)


def _with_correction(text: str, problem: str) -> str:
    """The corrected text is shown if it compiles and fits a line; else the place of the problem."""
    if (corrected := correction(text)) is None:
        return problem
    placed = f"{problem} ({corrected.because})"
    try:
        _compiled(corrected.text)
    except ValueError:
        return placed
    return placed if "\n" in corrected.text else corrected.sentence


def _check_pattern(source: str, is_written_out: bool) -> None:
    """Raises ValueError. A pattern can take seconds to compile, so none comes from an argument."""
    shown = " ".join(source.split())
    if not is_written_out:
        raise ValueError(f"matches({shown}) needs a pattern that is written out, such as matches('^refund-')")
    pattern = _cel().compile(source).execute({})
    if not isinstance(pattern, str):
        raise ValueError(f"matches({shown}) needs a text")  # noqa: TRY004 - in a file that somebody wrote
    if "\b" in pattern:
        raise ValueError(
            r"in a pattern, \b is a backspace unless the text is written r'…', such as r'\bword'"
        )
    try:
        compile_pattern(pattern)
    except ValueError as error:
        raise ValueError(f"matches({shown}) has no regular expression: {error}") from None


@lru_cache(maxsize=1024)
def compile_pattern(text: str) -> None:
    """Raises ValueError for a regular expression invalid in CEL's `matches`."""
    try:
        _cel().compile(_MATCHES).execute({"text": "", "pattern": text})
    except RuntimeError as error:
        problem = re.findall(
            r"^(?:error: )?(.*?)(?:\. Check function arguments.*)?$", str(error), re.MULTILINE
        )
        raise ValueError(problem[-1] + _meant_glob(text)) from None


def _meant_glob(text: str) -> str:
    if not re.fullmatch(r"[\w.*?:-]*", text):
        return ""
    return f' (did you mean "{text.replace(".", "[.]").replace("*", ".*").replace("?", ".")}"?)'


@lru_cache(maxsize=4096)
def matches_from_start(pattern: str, text: str) -> bool:
    """Return whether a pattern matches the beginning of a text, whatever follows; results are cached."""
    return _cel().compile(_MATCHES).execute({"text": text, "pattern": f"^(?:{pattern})"}) is True


@lru_cache(maxsize=1024)
def whole_pattern(text: str) -> str:
    """Raises ValueError for a pattern that cannot match as a whole."""
    compile_pattern(text)  # alone: "a)|(b" would be valid in parentheses
    compile_pattern(f"^(?:{text})$")
    return text


def matches_whole(pattern: str, text: str) -> bool:
    """False for an invalid pattern. Never raises."""
    try:
        whole = f"^(?:{whole_pattern(pattern)})$"
        return _cel().compile(_MATCHES).execute({"text": text, "pattern": whole}) is True
    except (ValueError, RuntimeError):
        return False


_MATCHES = "text.matches(pattern)"


def _duration(text: str) -> timedelta:
    """Parse a duration by CEL's grammar. Raises ValueError."""
    match = _DURATION.match(text)
    if match is None:
        raise ValueError("not a duration")
    parts = _PART.findall(match[2])
    exact = sum((Fraction(f"0{number}") * _MICROSECONDS[unit] for number, unit in parts), Fraction())
    if exact.denominator != 1:
        raise ValueError("finer than a microsecond")
    return timedelta(microseconds=-int(exact) if match[1] == "-" else int(exact))


def _exponent(loops: list[str], functions: set[str]) -> int:
    """The power of the input's size that bounds the work; `map` and `filter` copy their list at each step."""
    if not loops:
        return 0
    compares_whole_values = bool(functions & {"@in", "_==_", "_!=_"})
    return sum(2 if name in {"map", "filter"} else 1 for name in loops) + compares_whole_values


def _weight(root: Any) -> int:
    """A string counts 1 per 64 characters."""
    weight, rest = 0, [root]
    while rest:
        value = rest.pop()
        weight += 1
        if isinstance(value, str):
            weight += len(value) // 64
        elif isinstance(value, dict):
            rest.extend(value.values())
        elif isinstance(value, list):
            rest.extend(value)
    return weight


def _known(what: str, used: set[str], known: frozenset[str]) -> None:
    unknown = sorted(used - known)
    if unknown:
        there = ", ".join(sorted(known))
        raise ValueError(f'unknown {what} "{unknown[0]}"{meant(unknown[0], known)}; there are: {there}')


def _where(message: str) -> str:
    match = _POSITION.search(message)
    if match is None:
        return message.splitlines()[0]
    line, column, problem = match.groups()
    at = f"column {column}" if line == "1" else f"line {line}, column {column}"
    return f"{at}: {_in_plain_words(problem)}"


def _in_plain_words(problem: str) -> str:
    """Without the words of the parser."""
    if found := re.match(r"token recognition error at: '(.*)'\Z", problem):
        is_quote = found[1][:1] in {"'", '"'}
        return f"the quote before {found[1][1:]} is not closed" if is_quote else f'"{found[1]}" is unknown'
    if found := re.match(r"(?:mismatched|extraneous|no viable alternative at) input '(.*)'\Z", problem):
        return "the condition ends too early" if found[1] == "<EOF>" else f'"{found[1]}" does not fit here'
    if "Incomplete" in problem:
        return "a part of the condition is missing"
    return problem


def _failure(error: BaseException) -> str:
    line = (str(error).splitlines() or [type(error).__name__])[0][:200]
    if line.startswith("No such overload"):
        return "a value has another type than the condition expects, such as a number compared with a text"
    if (called := re.match(r"Undefined variable or function: '(\w+)'", line)) and called[1] in FUNCTIONS:
        return f"{called[1]} was called with a value of another type than it takes"
    return line
