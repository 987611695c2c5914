"""Keys of a checkpoint about what its cards show. A ValueError's text follows the key's name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from agent.domain import checkpoint_fields
from agent.domain.explanation import paths_read
from agent.domain.expression import compile_when
from agent.domain.limits import Limit
from agent.domain.rules import Layout, Rule, as_read
from agent.domain.templates import ROOTS, placeholder_names
from signoff.json_paths import may_meet
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
    readings = [as_read(label) for label in value.values()]
    if len(set(readings)) < len(readings):
        raise ValueError("must not have the same label twice")
    for name, reading in zip(value, readings, strict=True):
        if any(as_read(other) == reading for other in value if other != name):
            raise ValueError(f"must not call {name} what another argument or fact is named")
    return tuple((name, label.strip()) for name, label in value.items())


def hide(value: Any) -> tuple[str, ...]:
    """Return the paths whose values stand in Details alone; raise ValueError for what says what runs."""
    paths = checkpoint_fields.redact(value)
    for name in (COMMAND, FOLDER):
        if any(may_meet((name,), path, "args") for path in paths):
            raise ValueError(f"cannot hide {name}, which says what runs")
    return paths


def problems(rule: Rule, limits: Sequence[Limit]) -> Iterator[tuple[str, str]]:
    """What a condition, a limit or a template reads decides, and so is not hidden."""
    for (root, *path), by in _read(rule, limits):
        for hidden in rule.hide:
            if root in ROOTS and may_meet(path, hidden, root):
                yield "hide", f'"hide" would hide {hidden}, but {by} reads {".".join((root, *path))}'


def _read(rule: Rule, limits: Sequence[Limit]) -> Iterator[tuple[Sequence[str], str]]:
    """Paths that start with args or facts, each with its reader."""
    if rule.when is not None:
        paths = [re.findall(r"\w+", path) for path in paths_read(rule.when)]
        elsewhere = compile_when(rule.when).variables - {path[0] for path in paths}
        yield from ((path, '"when"') for path in (*paths, *([root] for root in elsewhere)))
    for key in ("description_template", "link_template"):
        yield from ((path, f'"{key}"') for path in placeholder_names(getattr(rule, key) or ""))
    yield from ((("facts", *name.split(".")), '"email_facts"') for name in rule.email_facts)
    yield from ((limit.of.split("."), f'the limit "{limit.name}"') for limit in limits)
