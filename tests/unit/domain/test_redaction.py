"""Masks in values: by name, by policy, by what is found, and where a hidden value is said again."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.domain.masked_action import MaskedAction, masked_action
from agent.domain.repetitions import repetitions
from signoff.masks import BY_POLICY, NAMED, NOT_SCANNED, TextSpan, is_secret_name, mask, redact_value
from signoff.values import Action


def nothing(_: str) -> list[TextSpan]:
    return []


def find_x(text: str) -> list[TextSpan]:
    """Three X in a row are a secret here."""
    return [TextSpan(*found.span(), "x-token") for found in re.finditer("XXX", text)]


def shown(value: object, **options: object) -> object:
    return redact_value(value, find=nothing, **options).value  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "dbPassword",
        "PGPASSWORD",
        "X-Api-Key",
        "apikey",
        "client_secret",
        "Authorization",
        "token",
        "access_token",
        "authToken",
        "userPwd",
        "privateKey",
        "ssh_key",
        "connection_string",
        "set-cookie",
        "cvv",
        "aws_secret_access_key",
        "AccountKey",
        "credentials",
        "otp",
        "passphrase",
        "session_key",
        "accesstoken",
    ],
)
def test_secret_names(name: str) -> None:
    """In every way of writing names."""
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "order_id",
        "key",
        "token_count",
        "max_tokens_limit",
        "password_reset_at",
        "secretary",
        "author",
        "keyboard",
        "passenger",
        "authors",
        "token_type",
        "secret_name",
        "design",
        "compass",
        "primary_key",
        "tokenizer",
        "",
        "monkey",
        "password_policy",
        "session",
        "public_key",
        "authorized_by",
        "shipping_address",
        "idempotency",
    ],
)
def test_names_that_are_none(name: str) -> None:
    """Words that only look like it, and words about a secret."""
    assert not is_secret_name(name)


def test_everything_under_a_secret_name_is_masked() -> None:
    """Texts, numbers and nested values; empty and yes-or-no values reveal nothing, and counts are counts."""
    value = {
        "password": "hunter2",
        "otp": 123456,
        "credentials": {"user": "joe", "roles": ["admin"]},
        "token": None,
        "secret": True,
        "tokens": 512,
        "passphrase": "",
        "order": 7,
    }
    assert shown(value) == {
        "password": "⟦redacted named-secret, 7 characters⟧",
        "otp": "⟦redacted named-secret, 6 characters⟧",
        "credentials": {
            "user": "⟦redacted named-secret, 3 characters⟧",
            "roles": ["⟦redacted named-secret, 5 characters⟧"],
        },
        "token": None,
        "secret": True,
        "tokens": 512,
        "passphrase": "",
        "order": 7,
    }


def test_what_policy_names_is_masked_by_name_and_by_path() -> None:
    """A name anywhere, a path where it leads, for arguments and facts apart; even yes and no are hidden."""
    value = {"card": {"number": 4111, "name": "Joe"}, "items": [{"price": 5}], "vip": True}
    masked = redact_value(value, find=nothing, redact=["number", "items.price", "vip", "facts.card"])
    assert masked.value == {
        "card": {"number": "⟦redacted by-policy, 4 characters⟧", "name": "Joe"},
        "items": [{"price": "⟦redacted by-policy, 1 character⟧"}],
        "vip": "⟦redacted by-policy⟧",
    }
    assert [secret.path for secret in masked.secrets] == ["$.card.number", "$.items[0].price", "$.vip"]
    assert masked.hidden == (("4111", BY_POLICY), ("5", BY_POLICY))


def test_found_secrets_are_masked_in_texts_and_in_keys() -> None:
    """Each with path, place and length; two keys with the same mask both stay."""
    masked = redact_value({"note": "a XXX b", "XXX": 1, "XXXX"[:3] + " ": 2}, find=find_x)
    assert masked.value == {
        "note": "a ⟦redacted x-token, 3 characters⟧ b",
        "⟦redacted x-token, 3 characters⟧": 1,
        "⟦redacted x-token, 3 characters⟧ ": 2,
    }
    first = masked.secrets[0]
    assert (first.path, first.start, first.length, first.kind) == ("$.note", 2, 3, "x-token")
    assert not any("XXX" in secret.path for secret in masked.secrets)
    assert len(redact_value({"XXX": 1, "⟦redacted x-token, 3 characters⟧": 2}, find=find_x).value) == 2


def test_keys_with_the_same_mask_take_time_in_proportion() -> None:
    """A thousand keys under one mask all stay, and each costs a few steps, however many came before."""
    steps = 0

    def count(*_: object) -> Any:
        nonlocal steps
        steps += 1
        return count

    value = {f"XXX{number:04}": 1 for number in range(1000)}
    sys.settrace(count)
    try:
        masked = redact_value(value, find=lambda text: [TextSpan(0, len(text), "x")])
    finally:
        sys.settrace(None)
    assert len(masked.value) == 1000
    assert steps < 1000 * 1000 / 2


def test_masks_stay_masks() -> None:
    """Cleaning again changes nothing, also under a secret's name."""
    once = shown({"password": "hunter2"})
    assert shown(once) == once
    assert mask("a ⟦redacted x, 3 characters⟧", [TextSpan(3, 8, NAMED)]) == "a ⟦redacted x, 3 characters⟧"


def test_spans_that_overlap_become_one() -> None:
    """No half of a secret is left between two masks."""
    assert (
        mask("0123456789", [TextSpan(2, 5, "a"), TextSpan(4, 8, "b"), TextSpan(9, 9, "c")])
        == "01⟦redacted a, 6 characters⟧89"
    )


@given(st.text("ab", max_size=40), st.integers(0, 40), st.integers(0, 40))
def test_a_tight_mask_is_no_longer_than_what_it_hides(text: str, start: int, end: int) -> None:
    """A text that had room for the secret has room for its mask."""
    span = TextSpan(min(start, len(text)), min(end, len(text)), NAMED)
    assert len(mask(text, [span], tight=True)) <= len(text)


def test_a_masked_action_keeps_the_digest_of_what_would_run() -> None:
    """What is shown differs, what was consented to does not; an action without secrets is the same object."""
    action = Action("pay", "1", {"password": "hunter2", "amount": 5})
    masked = masked_action(action, redact_value(action.arguments, find=nothing))
    assert isinstance(masked, MaskedAction)
    assert masked.digest == action.digest
    assert "hunter2" not in masked.canonical.decode() + repr(masked)
    assert Action.from_canonical(masked.canonical).arguments["amount"] == 5
    assert not masked.unseen
    plain = Action("pay", "1", {"amount": 5})
    assert masked_action(plain, redact_value(plain.arguments, find=nothing)) is plain


def test_an_action_whose_masks_do_not_fit_is_unseen() -> None:
    """Thousands of short secrets make the masked text longer than arguments may be: then nothing is shown, and a note
    says so.
    """
    action = Action("pay", "1", {f"token{n}": "x" for n in range(15_000)})
    masked = masked_action(action, redact_value(action.arguments, find=nothing))
    assert isinstance(masked, MaskedAction)
    assert masked.unseen
    assert NOT_SCANNED in str(masked.arguments)
    assert masked.digest == action.digest


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("hunter2", "wrong password hunter2!"),
        ('a "quoted" one', json.dumps({"said": 'a "quoted" one'})),
        ("grün ist gut", json.dumps("so: grün ist gut")),
        ("p@ss word/9", "https://x.example/?q=p%40ss%20word%2F9"),
        ("two\n words here", "he said: two words here"),
        ("4111111111111111", "card 4111 1111 1111 1111 declined"),
        ("4111-1111-1111-1111", "card 4111111111111111 declined"),
        ("1499", "it costs 1,499.00 now"),
        ("correct horse battery", "the error: correct horse ba… (+3 characters)"),
        ("correct-horse-battery", "cut at correct-hor"),
    ],
)
def test_a_hidden_value_is_found_where_it_is_said_again(value: str, text: str) -> None:
    """As it is, as JSON and URLs write it, with other spaces, grouped otherwise, cut off."""
    shown_text = mask(text, repetitions(text, [(value, BY_POLICY)]))
    assert "⟦redacted by-policy" in shown_text
    assert value not in shown_text
    assert "⟦" in shown_text


def test_short_values_are_found_as_words_only() -> None:
    """ "50" is hidden in "50 rows", not in "1500"; a named secret of three letters is no secret elsewhere."""
    assert {s.start for s in repetitions("50 of 1500, 50", [("50", BY_POLICY)])} == {0, 12}
    assert list(repetitions("yes", [("yes", NAMED)])) == []
    assert list(repetitions("   ", [(" ", BY_POLICY)])) == []


@given(st.text(min_size=8, max_size=40).filter(str.strip), st.text(max_size=20), st.text(max_size=20))
def test_a_long_hidden_value_never_survives_as_it_is(value: str, before: str, after: str) -> None:
    """Whatever stands around it."""
    text = f"{before}{value}{after}"
    spans = sorted((span.start, span.end) for span in repetitions(text, [(value, BY_POLICY)]))
    ends = [0, *(end for _, end in spans)]
    left = [text[max(ends[: n + 1]) : start] for n, (start, _) in enumerate([*spans, (len(text), len(text))])]
    assert not any(value in piece for piece in left)
