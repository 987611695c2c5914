"""Keys of a checkpoint about what its cards show. A ValueError's text follows the key's name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from agent.domain import checkpoint_fields
from agent.domain.condition_text import HIDDEN
from agent.domain.explanation import paths_read
from agent.domain.limits import COUNT, Limit
from agent.domain.rules import Layout, Rule
from agent.domain.templates import placeholder_names
from signoff.json_paths import is_redacted
from signoff.values import COMMAND, FOLDER

MAX_LABEL = 60
_NAME = re.compile(r"[^.\s\x00]+\Z")


def layout(value: Any) -> Layout:
    """Return how a card writes names: as they are, or as words (`plain`); raise ValueError for another word."""
    return "plain" if checkpoint_fields.one_of(value, ["standard", "plain"]) == "plain" else "standard"


def labels(value: Any) -> tuple[tuple[str, str], ...]:
    """What arguments and facts are called, by their names."""
    if not isinstance(value, dict):
        raise ValueError('must be a table such as { price = "Amount" }')  # noqa: TRY004 - a file that somebody wrote
    for name, label in value.items():
        if not _NAME.match(name):
            raise ValueError(f"{name!r} is not a name of an argument or a fact, such as price")
        if len(checkpoint_fields.text(label).strip()) > MAX_LABEL:
            raise ValueError(f"must have labels of at most {MAX_LABEL} characters")
    if len({label.strip() for label in value.values()}) < len(value):
        raise ValueError("must not have the same label twice")
    return tuple((name, label.strip()) for name, label in value.items())


def hide(value: Any) -> tuple[str, ...]:
    """Return the paths whose values stand in Details alone; raise ValueError for what says what runs."""
    paths = checkpoint_fields.redact(value)
    for name in (COMMAND, FOLDER):
        if any(is_redacted((name,), (path,)) for path in paths):
            raise ValueError(f"cannot hide {name}, which says what runs")
    return paths


def problems(rule: Rule, limits: Sequence[Limit]) -> Iterator[tuple[str, str]]:
    """What a condition, a limit or a template reads decides, and so is not hidden."""
    for read, by in _read(rule, limits):
        if (hidden := _hides(rule, read)) is not None:
            yield "hide", f'"hide" would hide {hidden}, which {by} reads'
    code = HIDDEN.sub(" ", rule.when or "")
    for name in rule.hide:  # a loop reads it of each item
        if "." not in name and re.search(rf"\.\s*{re.escape(name)}\b", code) and not _hides_any(rule):
            yield "hide", f'"hide" would hide {name}, which "when" reads'


def _hides_any(rule: Rule) -> bool:
    return any(_hides(rule, read) is not None for read in paths_read(rule.when or ""))


def _read(rule: Rule, limits: Sequence[Limit]) -> Iterator[tuple[str, str]]:
    yield from ((path, '"when"') for path in paths_read(rule.when or ""))
    for key in ("description_template", "link_template"):
        template = getattr(rule, key) or ""
        yield from ((".".join(path), f'"{key}"') for path in placeholder_names(template))
    yield from ((f"facts.{name}", '"email_facts"') for name in rule.email_facts)
    yield from ((limit.of, f'the limit "{limit.name}"') for limit in limits if limit.of != COUNT)


def _hides(rule: Rule, read: str) -> str | None:
    """The part of what is read that would be hidden."""
    root, *names = re.findall(r"[^.\[\]]+", read)
    if root not in ("args", "facts"):
        return None
    steps = tuple(int(name) if name.isdigit() else name for name in names)
    if steps and is_redacted(steps, rule.hide, root):
        return read
    within = [each for each in rule.hide if _is_below(each.split("."), root, names)]
    return within[0] if within else None


def _is_below(hidden: list[str], root: str, read: list[str]) -> bool:
    """A whole object that is read has what is hidden in it. A single name may be anywhere."""
    if hidden[0] in ("args", "facts"):
        if hidden[0] != root:
            return False
        hidden = hidden[1:]
    return not read or (len(hidden) > len(read) and hidden[: len(read)] == read)
