"""Parse a sentence into tool calls, for the scripted model.

A tool matches a clause if the words of its name do. Words that only name a parameter (the "order" of ``order_id``)
count little, because several tools share them. A missing required argument is reported, never guessed.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_STOP_WORDS = frozenset(
    {
        *(
            "a",
            "an",
            "and",
            "by",
            "do",
            "for",
            "from",
            "get",
            "id",
            "in",
            "is",
            "it",
            "make",
            "my",
            "name",
            "no",
        ),
        *(
            "number",
            "of",
            "on",
            "or",
            "perform",
            "please",
            "process",
            "run",
            "the",
            "this",
            "to",
            "tool",
            "value",
        ),
        "with",
    }
)
_SYNONYMS = {
    "remove": "delete", "purge": "delete", "erase": "delete", "drop": "delete",
    "where": "status", "track": "status", "check": "status", "has": "status", "did": "status",
    "reimburse": "refund", "tell": "notify", "inform": "notify", "email": "notify", "message": "notify",
}  # fmt: skip
_ENOUGH = 1.0

_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)*")
_NUMBER = re.compile(r"(?<![\w.@-])-?\d+(?:\.\d+)?(?![\w@]|\.\d)")
_QUOTED = re.compile(r"[\"“'‘]([^\"”'’]+)[\"”'’]")
_SAYING = re.compile(
    r"\b(?:saying|that says|with (?:the )?(?:text|message))\b:?\s*(.+)$", re.IGNORECASE | re.DOTALL
)
_CLAUSES = re.compile(r"\s*(?:[.;,!?](?=\s|$)|\band\b|\bthen\b|&|\n)\s*", re.IGNORECASE)
_PAIR = re.compile(r"(\w+)\s*=\s*(\"(?:[^\"\\]|\\.)*\"|'[^']*'|\[[^\]]*\]|[^\s,)]+)")


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that a call of the model offers, with the JSON schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]

    @property
    def parameters(self) -> dict[str, dict[str, Any]]:
        return {
            name: self._resolved(schema) for name, schema in (self.schema.get("properties") or {}).items()
        }

    @property
    def required(self) -> list[str]:
        return list(self.schema.get("required") or ())

    def usage(self) -> str:
        """The tool with its required arguments, as a user could write it."""
        return " ".join([self.name, *(f"{name}=…" for name in self.required)])

    def _resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema behind a ``$ref``, or the first non-null alternative."""
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[-1]
            return dict((self.schema.get("$defs") or {}).get(name, {}))
        options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
        return self._resolved(options[0]) if options else schema


@dataclass(frozen=True, slots=True)
class Wording:
    """A sentence's meaning: the tool calls that it asks for, and required arguments that it lacks."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def named_calls(text: str, tools: Sequence[OfferedTool]) -> list[tuple[str, dict[str, Any] | str]]:
    """Find calls spelled out: a tool's name, then a JSON object or ``key=value`` pairs. Invalid JSON is passed on
    verbatim, to show how a malformed call is handled.
    """
    by_name = {tool.name: tool for tool in tools}
    names = "|".join(re.escape(name) for name in sorted(by_name, key=len, reverse=True))
    found = list(re.finditer(rf"(?<![\w-])(?:{names})(?![\w-])", text))
    calls: list[tuple[str, dict[str, Any] | str]] = []
    ends = [*(match.start() for match in found), len(text)][1:]
    for here, end in zip(found, ends, strict=True):
        tool = by_name[here.group()]
        arguments = _spelled_out(text[here.end() : end], tool)
        if arguments or (arguments is not None and not tool.required):
            calls.append((tool.name, arguments))
    return calls


def worded_calls(text: str, tools: Sequence[OfferedTool]) -> Wording:
    """A clause without a verb repeats the last tool."""
    wording = Wording()
    said = _SAYING.search(text)
    payload = said.group(1).strip() if said else None
    tool: OfferedTool | None = None
    for clause in filter(None, _CLAUSES.split(text[: said.start()] if said else text)):
        tool = _best(clause, tools) or (tool if _NUMBER.search(clause) or _EMAIL.search(clause) else None)
        if tool is None:
            continue
        arguments = _Reader(clause, payload).arguments(tool)
        if lacking := [name for name in tool.required if name not in arguments]:
            wording.missing.extend(f"`{name}` for `{tool.name}`" for name in lacking)
        elif (tool.name, arguments) not in wording.calls:
            wording.calls.append((tool.name, arguments))
    return wording


def _spelled_out(text: str, tool: OfferedTool) -> dict[str, Any] | str | None:
    rest = text.lstrip(" \t:(`")
    if rest.startswith("{"):
        try:
            value, _ = json.JSONDecoder().raw_decode(rest)
        except ValueError:
            return rest.strip()
        return dict(value)
    pairs = {key: _typed(raw, tool.parameters.get(key, {})) for key, raw in _PAIR.findall(rest)}
    return pairs or ({} if not rest.strip(" .)`") else None)


def _typed(raw: str, schema: Mapping[str, Any]) -> Any:
    quoted = len(raw) > 1 and raw[0] == raw[-1] and raw[0] in "\"'"
    if schema.get("type") in ("string", None) and quoted:
        return raw[1:-1]
    if schema.get("type") == "string":
        return raw
    try:
        return json.loads(raw)
    except ValueError:
        return raw


def _best(clause: str, tools: Sequence[OfferedTool]) -> OfferedTool | None:
    said = set(_words(clause))
    stems = _stems(said | {_SYNONYMS[word] for word in said & _SYNONYMS.keys()})
    nouns = _stems(word for tool in tools for name in tool.parameters for word in _words(name))
    score, tool = max(((_score(tool, stems, nouns), tool) for tool in tools), key=lambda pair: pair[0])
    return tool if score >= _ENOUGH else None


def _score(tool: OfferedTool, said: set[str], nouns: set[str]) -> float:
    name = _stems(_words(tool.name))
    description = _stems(_words(tool.description)) - nouns - name
    return 3 * len((name - nouns) & said) + 0.5 * len(name & nouns & said) + 0.3 * len(description & said)


def _words(text: str) -> Iterator[str]:
    return (word for word in re.findall(r"[a-z]+", text.lower()) if word not in _STOP_WORDS)


def _stems(words: Iterable[str]) -> set[str]:
    """Return the beginnings of words, so that "notify" matches "notification", and "record" matches "records"."""
    return {word.rstrip("s")[:5] for word in words}


class _Reader:
    """Uses each number once."""

    def __init__(self, clause: str, payload: str | None) -> None:
        self._clause = clause
        self._payload = payload
        self._numbers = [match.group() for match in _NUMBER.finditer(clause)]

    def arguments(self, tool: OfferedTool) -> dict[str, Any]:
        found: dict[str, Any] = {}
        numeric = [name for name, schema in tool.parameters.items() if _is_number(schema)]
        # Labelled numbers ("order 7") first, so that an unlabelled one cannot take their place.
        for name in numeric:
            if (raw := self._beside(name, r"-?\d+(?:\.\d+)?")) in self._numbers:
                found[name] = self._number(raw, tool.parameters[name])
        for name in numeric:
            if name not in found and name in tool.required and self._numbers:
                found[name] = self._number(self._numbers[0], tool.parameters[name])
        for name, schema in tool.parameters.items():
            if name not in numeric and (value := self._word(name, schema)) is not None:
                found[name] = value
        return {name: found[name] for name in tool.parameters if name in found}

    def _number(self, raw: str, schema: Mapping[str, Any]) -> int | float:
        self._numbers.remove(raw)
        return float(raw) if schema.get("type") == "number" and "." in raw else int(float(raw))

    def _word(self, name: str, schema: Mapping[str, Any]) -> Any:
        if choices := schema.get("enum"):
            return next((choice for choice in choices if str(choice).lower() in self._clause.lower()), None)
        if schema.get("type") != "string":
            return None
        if re.search(r"text|message|body|content|note|comment", name):
            return self._payload or self._quoted()
        if re.search(r"mail|recipient|address|^to$|customer|user", name) and (
            email := _EMAIL.search(self._clause)
        ):
            return email.group()
        if "reason" in name and (because := re.search(r"\bbecause\s+(.+)$", self._clause, re.IGNORECASE)):
            return because.group(1)
        return self._beside(name, r"[\w@.-]*\w") or self._before(name) or self._quoted()

    def _beside(self, name: str, value: str) -> str | None:
        """``7`` of "order number 7" for ``order_id``."""
        if not (noun := _noun(name)):
            return None
        link = r"s?\b\s*(?:(?:number|no|nr|id|name|is|to|named|called|of)\b\.?\s*|[#=:]\s*)*"
        match = re.search(rf"\b{noun}{link}({value})", self._clause, re.IGNORECASE)
        return match.group(1) if match else None

    def _before(self, name: str) -> str | None:
        """``users`` of "the users table" for ``table_name``."""
        match = (
            re.search(rf"([\w-]+)\s+{_noun(name)}\b", self._clause, re.IGNORECASE) if _noun(name) else None
        )
        return match.group(1) if match and match.group(1).lower() not in _STOP_WORDS else None

    def _quoted(self) -> str | None:
        match = _QUOTED.search(self._clause)
        return match.group(1) if match else None


def _noun(name: str) -> str:
    return next((part for part in name.lower().split("_") if part not in _STOP_WORDS), "")


def _is_number(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") in ("integer", "number")
