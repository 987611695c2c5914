"""Secrets in texts: every kind is found, and nothing else is."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.masks import NOT_SCANNED, mask
from slackbot.masking import clean_now
from slackbot.masking.secret_finder import HINTED, LONGEST, SecretFinder
from slackbot.masking.tokens import TOKENS, Token
from tests.planted import FORMATS, PRIVATE_KEY, SECRETS, URL_PASSWORD

WRAPPINGS = (
    "{}",
    "please use {} for this",
    "it is ({}).",
    '{{"note": "{}"}}',
    "https://x.example/?q={}&page=2",
    "key:{}\nnext line",
    "`{}`",
    "'{}',",
)


def clean(text: str) -> str:
    return mask(text, SecretFinder(budget=60)(text))


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("kind", SECRETS)
def test_every_kind_is_masked_wherever_it_stands(kind: str, wrapping: str) -> None:
    """No piece of eight characters of a token survives, whatever stands around it."""
    secret = SECRETS[kind]
    shown = clean(wrapping.format(secret))
    assert "⟦redacted " in shown
    body = secret.removeprefix("AccountKey=").removeprefix("https://hooks.slack.com/services/")
    left = [body[at : at + 8] for at in range(len(body) - 7) if body[at : at + 8] in shown]
    assert left == [], shown


def test_a_mask_tells_kind_and_length_and_leaves_the_rest() -> None:
    """What is not secret stays as it was, and the sign says what stood there."""
    token = SECRETS["github-token"]
    assert clean(f"push with {token} to main") == "push with ⟦redacted github-token, 40 characters⟧ to main"


@pytest.mark.parametrize(("kind", "token"), FORMATS, ids=[f"{kind}-{token[:12]}" for kind, token in FORMATS])
def test_every_documented_format_is_masked_whole(kind: str, token: str) -> None:
    """Each prefix and form of each provider: nothing of the token is left, and what stands around it is."""
    mask_of_it = f"⟦redacted {kind}, {len(token)} characters⟧"
    assert clean(f"use {token} here") == f"use {mask_of_it} here"
    assert clean(f'{{"note": "{token}"}}') == f'{{"note": "{mask_of_it}"}}'


@pytest.mark.parametrize("rule", TOKENS, ids=lambda rule: rule.anchors[0])
def test_every_rule_has_an_example_for_each_of_its_beginnings(rule: Token) -> None:
    """No rule of the table is without proof: each anchor stands in a token that this rule finds."""
    examples = [token for _, token in FORMATS] + [f"postgres://joe:{URL_PASSWORD}@db.example/shop"]
    found = [token for token in examples if list(rule.find(token))]
    assert [anchor for anchor in rule.anchors if not any(anchor in token for token in found)] == []


def test_of_a_connection_url_only_the_password_goes() -> None:
    """Scheme, user, host and database stay readable, also with an unencoded @ or ! in the password."""
    for password in (URL_PASSWORD, "p@ss/w:rd", "s%40fe", "x", 'a"b', "a<b>c"):
        shown = clean(f"dsn postgres://joe:{password}@db.example:5432/shop?ssl=on done")
        assert (
            shown == f"dsn postgres://joe:⟦redacted url-password, {len(password)} "
            f"character{'s' if len(password) > 1 else ''}⟧@db.example:5432/shop?ssl=on done"
        )


@pytest.mark.parametrize(
    "written", [PRIVATE_KEY, json.dumps(PRIVATE_KEY), json.dumps(json.dumps(PRIVATE_KEY))]
)
def test_a_private_key_goes_from_begin_to_end(written: str) -> None:
    """Also when JSON escaped its line breaks, once or twice, and cut at either end."""
    shown = clean(f"before {written} after")
    assert PRIVATE_KEY.split("\n")[1] not in shown
    assert "KEY-----" not in shown
    assert shown.startswith("before ")
    assert shown.endswith(" after")
    for cut in (written[: len(written) // 2], written[len(written) // 2 :]):
        assert not any(line in clean(cut) for line in PRIVATE_KEY.split("\n")[1:-1])


def test_a_jwt_goes_with_its_signature_and_without_it() -> None:
    """Three parts, two parts, and one that was cut in the middle."""
    token = SECRETS["jwt"]
    assert clean(f"a {token} b") == f"a ⟦redacted jwt, {len(token)} characters⟧ b"
    for cut in (token.rpartition(".")[0], token[:60], token[:-20]):
        assert clean(cut) == f"⟦redacted jwt, {len(cut)} characters⟧"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("PGPASSWORD=hunter2 psql", "hunter2"),
        ('{"user": "joe", "dbPassword": "hunter2"}', "hunter2"),
        ("{'api_key': 'hunter2'}", "hunter2"),
        ('{"body": "{\\"client_secret\\": \\"hunter2\\"}"}', "hunter2"),
        ("password: hunter2\nuser: joe", "hunter2"),
        ("The password: hunter2.", "hunter2"),
        ("Authorization: Basic am9lOnB3", "am9lOnB3"),
        ("curl -H 'Authorization: Bearer short1' x", "short1"),
        ("sent Bearer 0123456789abcdef0 along", "0123456789abcdef0"),
        ("https://x.example/?access_token=hunter2&b=1", "hunter2"),
        ("host=db password='hun ter2' user=joe", "hun ter2"),
        ('secret = "a \\" b" and more', 'a \\" b'),
        ('{"tokens": ["hunter2", "hunter3"]}', "hunter3"),
        ("x-api-key: hunter2", "hunter2"),
        ("aws key is 'wJalrXUtnFEMIK7MDENGbPxRfiCYzzzzzzzzKEY1'", "wJalrXUtnFEMIK7MDENGbPxRfiCYzzzzzzzzKEY1"),
    ],
)
def test_what_stands_behind_a_secret_name_is_masked(text: str, secret: str) -> None:
    """Assignments, JSON in JSON, headers, query strings, connection strings."""
    shown = clean(text)
    assert secret not in shown
    assert "⟦redacted " in shown


def harmless() -> list[str]:
    """Three hundred values that have to be read to decide anything."""
    rng = random.Random(20)
    digest = [hashlib.sha256(str(n).encode()).hexdigest() for n in range(30)]
    return [
        *(f"ORD-{rng.randrange(10**10):010}" for _ in range(25)),
        *(f"AP{rng.randrange(10**12):012}" for _ in range(25)),
        *(f"AC-{rng.randrange(10**8)}" for _ in range(10)),
        *(str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(30)),
        *(f"{rng.randrange(10**9)}:{uuid.UUID(int=rng.getrandbits(128))}" for _ in range(10)),
        *digest,
        *(f"sha256:{each}" for each in digest[:10]),
        *(each[:40] for each in digest[:10]),
        *(each.upper() for each in digest[:10]),
        *(f"digest {hashlib.md5(each.encode()).hexdigest()}" for each in digest[:10]),
        *(f"{rng.uniform(0, 1e6):,.2f} EUR" for _ in range(25)),
        *(f"anna.{n}+orders@mail{n}.example" for n in range(20)),
        *(f"https://shop.example:8443/orders/{n}?page=2#top" for n in range(10)),
        *(f"https://shop.example:8080/u/anna{n}@mail.example" for n in range(10)),
        *(f"2027-0{1 + n % 9}-11T09:{n:02}:00Z" for n in range(10)),
        *(f"DE{rng.randrange(10**20):020}" for _ in range(10)),
        *(f"+49 {rng.randrange(10**10)}" for _ in range(10)),
        *(f"U0{rng.randrange(10**9):09}" for _ in range(10)),
        *(f"192.168.{n}.1:5432" for n in range(10)),
        "Donaudampfschifffahrtsgesellschaftskapitänswitwenrente",
        "supercalifragilisticexpialidocious",
        "task-force-for-the-new-office-building-in-town",
        "sk-learn-something-very-long-and-plain",
        "ASIAPACIFICREGIONMANAGERS",
        "APARTMENTBUILDING",
        "ACKNOWLEDGEMENTSANDTHANKS",
        "The secret of success: never give up on it",
        "Basic understanding of responsibilities required",
        "token_count=512, max_tokens: 4096, tokens=12",
        "Please reset the password of Anna, her token expired",
        "The design: signature on page 3, key: order-7",
        "npm install left-pad && pip install requests",
        "git checkout -b feature/password-reset origin/main",
        "SELECT token_id FROM sessions WHERE user_id = 5",
        "password_reset_at=2027-01-01 password_policy=strict",
        "glazed-doughnuts-for-everybody-in-the-office",
        "xoxo, Grandma",
        "eyJustkidding. This is a sentence.",
        "-----BEGIN CERTIFICATE-----",
        "10:30:00:1234567",
    ]


def test_harmless_values_stay_readable() -> None:
    """Order numbers, ids, digests, prices, addresses, long words: 300 of them, 0 masked."""
    values = harmless()
    assert len(values) >= 300
    assert [value for value in values if clean(value) != value] == []
    together = json.dumps({f"field_{n}": value for n, value in enumerate(values)})
    assert clean(together) == together


@given(st.text("0123456789-/., ", max_size=60))
def test_digits_are_never_a_secret(text: str) -> None:
    """Whatever is made of digits and separators is a number to somebody."""
    assert clean(text) == text


@given(st.text(max_size=200))
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    """A mask is no secret, so several surfaces may each clean the same text."""
    planted = f"{text} password={text} {SECRETS['github-token']} {text}"
    once = clean(planted)
    assert clean(once) == once


@pytest.mark.parametrize(
    "unit",
    [
        "eyJ",
        "sk-",
        "://a:",
        "BEGIN PRIVATE KEY.",
        "END PRIVATE KEY ",
        "pw ",
        "pw=",
        "token:",
        'token="',
        "M",
        "xoxb-1-",
        'pw=\\"',
        "-",
        "awskey",
        "1234567890:",
        "LS0tLS1CRUdJTi",
        "a@://b:",
        "PuTTY-User-Key-File-2 ",
        "glpat-",
        "MTk4.",
        "hooks.slack.com/services/",
        "0a-us1",
        "AccountKey=",
    ],
)
def test_hostile_text_takes_linear_time(unit: str) -> None:
    """Twice the text may not take four times as long: a pattern holds the whole process while it works."""

    def seconds(length: int) -> float:
        text = (unit * length)[:length]
        begun = time.process_time()
        SecretFinder(budget=60)(text)
        return time.process_time() - begun

    seconds(1000)
    once = seconds(100_000)
    assert once < 3
    # The better of two: a collection of the whole heap of the tests falls into one now and then.
    assert min(seconds(200_000), seconds(200_000)) < 3.2 * once + 0.2


def test_a_text_for_which_there_is_no_time_is_masked_whole() -> None:
    """When time runs out the text is hidden from end to end, and the mask says so."""
    ticks = iter(range(1000))
    finder = SecretFinder(budget=3, clock=lambda: float(next(ticks)))
    text = "nothing secret in here, but who knows: AKIA eyJ :// a.b SG."
    assert mask(text, finder(text)) == f"⟦redacted {NOT_SCANNED}, {len(text)} characters⟧"


def test_short_texts_are_looked_through_when_the_time_is_up() -> None:
    """So many characters of them, secrets found as ever; a long text, and what comes after those, is masked."""
    finder, token = SecretFinder(budget=-1, sure=100), SECRETS["github-token"]
    assert mask(token, finder(token)) == "⟦redacted github-token, 40 characters⟧"
    assert finder("lorem: ipsum " * 10)
    assert finder("Pay: order 7") == []
    assert finder("lorem ipsum: dolor sit amet, consectetur adipiscing")


PIECES = [
    piece for secret in (*SECRETS.values(), PRIVATE_KEY) for piece in (secret[:40], secret[:9], secret[-30:])
]


@given(
    st.lists(st.sampled_from([*PIECES, *"\"'{[:=. ", "Password", "basic ", "aws key ", "x"]), max_size=6).map(
        "".join
    )
)
def test_a_short_text_keeps_no_secret_that_a_long_one_would_lose(text: str) -> None:
    """What is not looked through, because it has no hint of a secret, is clean for all searches as well."""
    assert clean(text) != text or clean(f"{text}{NO_MORE}") == f"{text}{NO_MORE}"


NO_MORE = "\n" * HINTED


def test_short_harmless_texts_take_next_to_no_time() -> None:
    """None of the searches begins, so there is always time for them: one request may hold thousands."""
    ticks = itertools.count()
    finder = SecretFinder(clock=lambda: float(next(ticks)))
    for text in ("value number 7", "refund", "1,499 EUR", "Grace Hopper"):
        assert finder(text) == ()
    assert next(ticks) == 1  # read once, when the finder was made
    assert SecretFinder(budget=-1, sure=0)("password: hunter2")[0].kind == NOT_SCANNED


def test_the_end_of_a_giant_text_is_masked_unread() -> None:
    """Only so much is looked through; the rest is not shown."""
    shown = clean("a" * LONGEST + "z" * 50)
    assert shown.endswith(f"a⟦redacted {NOT_SCANNED}, 50 characters⟧")


@pytest.mark.parametrize("host", ["hooks.slack.com", "HOOKS.Slack.COM", "hooks.slack-GOV.com"])
def test_the_name_of_a_host_has_no_case(host: str) -> None:
    """Whoever has the address of a webhook may post, however its host is written."""
    secret = "T0ABCDEFG/B0ABCDEFG/" + "x1Y2z3" * 4
    assert secret not in clean_now(f"posting to https://{host}/services/{secret} failed")
