"""Canonical bytes: the one form of an action that is shown, approved and executed."""

import hashlib
import json
import math
from types import MappingProxyType

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from signoff.canonical import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_INTEGER,
    canonical_bytes,
    parse_arguments,
    parse_canonical,
    parse_json,
)
from signoff.errors import MalformedArguments
from signoff.values import Action

texts = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=12)
numbers = st.integers(-MAX_INTEGER, MAX_INTEGER) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(texts, values, max_size=5)


@given(values)
def test_canonical_form_survives_being_read_back(value):
    """Reading canonical bytes and writing them again gives the same bytes, whatever the value."""
    encoded = canonical_bytes(value)
    assert canonical_bytes(parse_canonical(encoded)) == encoded


@given(objects, st.randoms(use_true_random=False))
def test_canonically_equal_json_has_one_digest(arguments, random):
    """The order of keys, white space and escapes of a text do not change what was approved."""
    members = list(arguments.items())
    random.shuffle(members)
    text = json.dumps(dict(members), indent=random.choice([None, 3]), ensure_ascii=random.random() < 0.5)
    assert Action("tool", "1", parse_arguments(text)).digest == Action("tool", "1", arguments).digest


@given(objects)
def test_action_is_read_back_from_its_bytes(arguments):
    """The stored bytes are enough to execute: they give back an equal action with the same digest."""
    action = Action("process_refund", "3", arguments)
    again = Action.from_canonical(action.canonical)
    assert again == action
    assert again.canonical == action.canonical
    assert action.digest == hashlib.sha256(action.canonical).digest()
    unchecked = Action.from_checked(action.canonical)
    assert (unchecked, unchecked.canonical) == (action, action.canonical)
    assert json.dumps(unchecked.arguments, sort_keys=True) == json.dumps(again.arguments, sort_keys=True)


@given(objects, st.data())
def test_any_change_of_a_byte_is_noticed(arguments, data):
    """A stored action with one byte changed is refused or has another digest, never the approved one."""
    action = Action("tool", "1", arguments)
    mutated = bytearray(action.canonical)
    index = data.draw(st.integers(0, len(mutated) - 1))
    mutated[index] ^= data.draw(st.integers(1, 255))
    try:
        read = Action.from_canonical(bytes(mutated))
    except MalformedArguments:
        return
    assert read.digest != action.digest


def test_tool_and_version_are_part_of_what_is_approved():
    """The same arguments for another tool or another version of it have another digest."""
    digests = {Action(tool, version, {}).digest for tool, version in [("a", "1"), ("b", "1"), ("a", "2")]}
    assert len(digests) == 3


def test_a_change_of_the_callers_dict_does_not_reach_the_action():
    """An action keeps its own copy, so that arguments cannot be changed after approval."""
    arguments = {"items": [1]}
    action = Action("tool", "1", arguments)
    before = action.canonical
    arguments["items"].append(2)
    assert action.arguments == {"items": [1]}
    assert action.canonical == before


def test_any_mapping_or_sequence_is_an_object_or_array():
    """Read-only mappings and tuples are arguments like any other, at every level."""
    frozen = MappingProxyType({"items": (MappingProxyType({"n": 1}),)})
    assert Action("tool", "1", frozen) == Action("tool", "1", {"items": [{"n": 1}]})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, b"1"),
        (-0.0, b"0"),
        (1e16, b"10000000000000000"),
        (1e21, b"1e+21"),
        (1e-7, b"1e-7"),
        (0.000001, b"0.000001"),
        (333333333.33333329, b"333333333.3333333"),
        ({"\u20ac": 1, "\r": 2, "\U0001f600": 3, "\ufb33": 4}, '{"\\r":2,"€":1,"😀":3,"\ufb33":4}'.encode()),
    ],
)
def test_numbers_and_keys_follow_rfc_8785(value, expected):
    """Numbers are written as ECMAScript writes them, keys are sorted by UTF-16 units."""
    assert canonical_bytes(value) == expected


@given(values)
def test_every_value_is_encoded_as_the_reference_encodes_it(value):
    """Whichever encoder writes a value, the bytes are those of the library for RFC 8785."""
    assert canonical_bytes(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    ("value", "path", "problem"),
    [
        ({"items": [{}, {}, {"price": math.nan}]}, "$.items[2].price", "not a finite number"),
        ([math.inf], "$[0]", "not a finite number"),
        ({"n": MAX_INTEGER + 1}, "$.n", "integer beyond"),
        ({"n": -MAX_INTEGER - 1}, "$.n", "integer beyond"),
        ({"a b": "x\x00"}, '$["a b"]', "NUL"),
        ({"a": {"x\x00": 1}}, "$.a", "key that contains a NUL"),
        (["\ud800"], "$[0]", "lone surrogate"),
        ({"\udfff": 1}, "$", "lone surrogate"),
        ({1: 2}, "$", "not a string"),
        ({"when": {1, 2}}, "$.when", "set"),
        ({"raw": b"x"}, "$.raw", "bytes"),
        ("x" * MAX_BYTES, "$", "larger than 256 KiB"),
    ],
)
def test_what_has_no_canonical_form_is_named_with_its_path(value, path, problem):
    """A value that nobody could approve exactly is malformed, and the model reads where."""
    with pytest.raises(MalformedArguments) as caught:
        canonical_bytes(value)
    assert caught.value.path == path
    assert problem in caught.value.problem


def nested(levels: int) -> list:
    value: list = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_depth_is_bounded_at_64_levels():
    """64 levels have a canonical form and can be executed, 65 have not."""
    assert canonical_bytes(nested(MAX_DEPTH)) == b"[" * 64 + b"]" * 64
    with pytest.raises(MalformedArguments, match="deeper than 64"):
        canonical_bytes(nested(MAX_DEPTH + 1))
    deep = Action("tool", "1", {"a": nested(MAX_DEPTH - 1)})
    assert Action.from_canonical(deep.canonical) == deep


@pytest.mark.parametrize(
    ("text", "path", "problem"),
    [
        ('{"a": {"b": 1, "b": 1}}', "$.a", 'the key "b" twice'),
        ('{"a": NaN}', "$.a", "finite"),
        ('{"a": [-Infinity]}', "$.a[0]", "finite"),
        ('{"a": 1e400}', "$.a", "finite"),
        ('{"a": 9007199254740992}', "$.a", "integer beyond"),
        ('{"a": ' + "9" * 5000 + "}", "$.a", "integer beyond"),
        ('{"a": "\\ud83d"}', "$.a", "lone surrogate"),
        ('{"a": "\\u0000"}', "$.a", "NUL"),
        (b'{"a": "\xff"}', "$", "UTF-8"),
        ("\ufeff{}", "$", "not JSON"),
        ("{'a': 1}", "$", "not JSON"),
        ('{"a": 1} x', "$", "not JSON"),
        ("", "$", "not JSON"),
        ("[" * 100_000, "$", "deeper than 64"),
        ("[1]", "$", "must be an object, not an array"),
        ("null", "$", "must be an object, not null"),
        ('{"a": "' + "x" * MAX_BYTES + '"}', "$", "larger than 256 KiB"),
    ],
)
def test_text_that_could_be_read_in_two_ways_is_malformed(text, path, problem):
    """Arguments from a model are read strictly, and what is wrong with them is named with its path."""
    with pytest.raises(MalformedArguments) as caught:
        parse_arguments(text)
    assert caught.value.path == path
    assert problem in caught.value.problem


@given(st.text() | st.binary())
def test_any_text_is_read_or_malformed(text):
    """No text from a model crashes the reader: it is read, or it is MalformedArguments."""
    try:
        value = parse_json(text)
    except MalformedArguments:
        return
    canonical_bytes(value)


@pytest.mark.parametrize(
    "encoded",
    [
        b'{"arguments": {},"tool":"a","tool_version":"1"}',
        b'{"tool":"a","arguments":{},"tool_version":"1"}',
        b'{"arguments":{"n":1.0},"tool":"a","tool_version":"1"}',
        b'{"arguments":{"n":10000000000000001},"tool":"a","tool_version":"1"}',
        b'{"arguments":{},"tool":"a"}',
        b'{"arguments":[],"tool":"a","tool_version":"1"}',
        b'{"arguments":{},"tool":"","tool_version":"1"}',
        b'{"arguments":{},"extra":1,"tool":"a","tool_version":"1"}',
        b"[]",
    ],
)
def test_bytes_that_no_action_has_are_refused(encoded):
    """Stored bytes that are not the canonical form of an action are never executed."""
    with pytest.raises(MalformedArguments):
        Action.from_canonical(encoded)
