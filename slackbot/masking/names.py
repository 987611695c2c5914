"""Names are stored and shown as they are, so a secret is no name."""

from __future__ import annotations

import math

from pydantic import AfterValidator

from slackbot.masking.secret_finder import SecretFinder

NO_NAME = "has the form of a secret, and names are stored and shown unmasked"


def is_no_name(name: str) -> bool:
    """By its form alone: `token:4` is a name."""
    return bool(SecretFinder(budget=math.inf, assigned=False)(name))


def _checked(name: str) -> str:
    if is_no_name(name):
        raise ValueError(NO_NAME)
    return name


NOT_SECRET = AfterValidator(_checked)
"""Of a model's field, or a parameter of a route."""
