"""Forms that people are asked to fill in, and what they answer: refused with a sentence, or kept in one form."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.domain.answer_entries import AnswerEntries
from agent.domain.answer_fields import FieldKind
from agent.domain.answer_schemas import CHOICE, MAX_FIELDS, PERSON
from agent.domain.answers import AnswerForm, UnfitAnswer
from signoff.errors import UnusableForm

CATASTROPHIC = ("(a+)+$", "^(a|a)*$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*)*x")
PATTERNS = (*CATASTROPHIC, "^[a-z]+$", r"\d", "[", "(?=x)", "(?P<n>", "(a{1000}){1000}", "", 5)
WORDS = (
    "eu", "us", "pens & <paper>", "<!channel>", "<@U0BOSS>", "*bold* _it_ `code`", "שלום", "\u202etxt", "مرحبا 12",
    "👩\u200d💻", "e\u0301\u0301\u0301\u0301", "\u200b", " ", "", "\t", " eu ", "x" * 300, "line\nline", "a\r\r\nb",
    "\r", "\ud800", "nul\x00", "2027-01-31", "٢٠٢٧-٠١-٣١", "U0ADA", "signoff:other", "x" * 10_001,
)  # fmt: skip
NUMBERS = (
    0, 1, -1, 7, 2**53, 10**400, 0.1, -0.0, 1.0, 1e22, 1e308, -1e308, math.nan, math.inf, -math.inf, True,
)  # fmt: skip


def deep(levels: int) -> Any:
    value: Any = "eu"
    for _ in range(levels):
        value = [value]
    return value


texts = st.sampled_from(WORDS) | st.text(max_size=30)
numbers = st.sampled_from(NUMBERS) | st.integers(-20, 20)
junk: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | texts | st.just(deep(500)),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(texts | st.integers(0, 3), each, max_size=3),
    max_leaves=5,
)


@st.composite
def options(draw: st.DrawFn) -> list[Any]:
    if many := draw(st.sampled_from((0, 0, 0, 0, 0, 0, 100, 101, 120))):
        return [f"option {n}" for n in range(many)]
    return draw(st.lists(texts, max_size=6, unique=True) | st.lists(junk, max_size=3))


def some_of(**strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Each key is there or not, and mostly a few of them."""
    return st.sets(st.sampled_from(sorted(strategies)), max_size=3).flatmap(
        lambda keys: st.fixed_dictionaries({key: strategies[key] for key in sorted(keys)})
    )


bounds = numbers | st.none()
DEFINED = {
    "Size": {"enum": ["small", "large"], "type": "string", "title": "Size"},
    "Count": {"$ref": "#/$defs/Whole"},
    "Whole": {"type": "integer", "minimum": 1},
    "Nested": {"type": "object", "properties": {"x": {"$ref": "#/$defs/Nested"}}},
    "Loop": {"$ref": "#/$defs/Loop"},
    "Rows": {"type": "array", "items": {"$ref": "#/$defs/Rows"}},
}
references = st.sampled_from(
    [*(f"#/$defs/{name}" for name in DEFINED), "#/$defs/None", "#", "x.json#/a", 5]
).map(lambda to: {"$ref": to})
kinds = st.one_of(
    some_of(minLength=bounds, maxLength=bounds, pattern=st.sampled_from(PATTERNS)).map(
        lambda more: {"type": "string", **more}
    ),
    some_of(
        minimum=bounds, maximum=bounds, exclusiveMinimum=bounds, exclusiveMaximum=bounds, multipleOf=st.just(5)
    ).flatmap(lambda more: st.sampled_from(({"type": "integer", **more}, {"type": "number", **more}))),
    st.sampled_from((
        {"type": "string", "format": "date"},
        {"type": "string", "format": PERSON},
        {"type": "boolean"},
        {"type": "object"},
        {"type": ["string", "null"]},
        {"const": "eu"},
        {"const": "eu", "enum": ["us"]},
        {"type": "string", "not": {"const": "eu"}},
    )),
    options().map(lambda offered: {"enum": offered}),
    st.tuples(options(), some_of(minItems=bounds, maxItems=bounds, uniqueItems=st.booleans())).map(
        lambda made: {"type": "array", "items": {"enum": made[0], "type": "string"}, **made[1]}
    ),
    references,
    references.map(lambda to: {"type": "array", "items": to}),
    st.dictionaries(st.sampled_from(("type", "enum", "anyOf", "items", "$ref", "allOf")), junk, max_size=2),
)  # fmt: skip
wrapped = kinds.flatmap(
    lambda rules: st.sampled_from(
        (
            rules,
            rules,
            rules,
            {"anyOf": [rules, {"type": "null"}], "default": None},
            {"allOf": [rules], "description": "the same"},
            {"allOf": [rules], "maxLength": 2},
            {"anyOf": [rules, {"type": "string"}]},
        )
    )
)
labelled = st.tuples(wrapped, some_of(title=texts, description=texts)).map(
    lambda made: made[0] | made[1] if isinstance(made[0], dict) else made[0]
)
names = st.sampled_from(("a", "b", "amount", "answer", "properties", "x" * 200, "ключ"))


@st.composite
def objects(draw: st.DrawFn) -> dict[str, Any]:
    """An object's schema: mostly one that people may be asked for."""
    properties = draw(
        st.dictionaries(names if draw(st.integers(0, 9)) else texts | st.integers(), labelled, max_size=4)
    )
    required = (
        draw(st.lists(st.sampled_from(sorted(map(str, properties))), unique=True)) if properties else []
    )
    schema: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": required,
        "$defs": DEFINED,
    }
    if not draw(st.integers(0, 5)):
        schema |= draw(
            some_of(
                required=st.sampled_from((["gone"], "a", 5, None, [5])),
                properties=junk,
                type=junk,
                minProperties=st.just(2),
                additionalProperties=st.booleans(),
                enum=junk,
            )
        )
    return schema


choices = options().flatmap(
    lambda offered: st.sampled_from(
        ({"enum": offered}, {"enum": offered, "type": "string", "title": "Which?"})
    )
)
small = st.integers(0, 6)
MATCHED = (*CATASTROPHIC[:2], "[ab]", "")
sound_kinds = st.one_of(
    some_of(minLength=small, maxLength=st.integers(4, 12), pattern=st.sampled_from(MATCHED)).map(
        lambda more: {"type": "string", **more}
    ),
    some_of(
        minimum=st.sampled_from((-3, 0, 1.5)),
        exclusiveMinimum=st.sampled_from((-2, 0.5)),
        maximum=st.sampled_from((4, 7.5)),
        exclusiveMaximum=st.sampled_from((6, 5.5)),
    ).map(lambda more: {"type": "integer", **more}),
    some_of(minimum=st.sampled_from((-3, 0.1)), maximum=st.sampled_from((4, 7.5))).map(
        lambda more: {"type": "number", **more}
    ),
    st.sampled_from((
        {"type": "string", "format": "date"},
        {"type": "string", "format": PERSON},
        {"type": "boolean"},
        {"$ref": "#/$defs/Size"},
        {"$ref": "#/$defs/Count"},
        {"type": "array", "items": {"$ref": "#/$defs/Size"}},
        {"enum": [f"option {n}" for n in range(100)]},
    )),
    some_of(minItems=st.integers(0, 2), maxItems=small, uniqueItems=st.booleans()).map(
        lambda more: {"type": "array", "items": {"enum": ["eu", "us", "שלום"]}, **more}
    ),
)  # fmt: skip


@st.composite
def sound_objects(draw: st.DrawFn) -> dict[str, Any]:
    """What authors write, but for bounds that nothing fits."""
    properties = draw(st.dictionaries(names, sound_kinds, min_size=1, max_size=4))
    optional = {name: {"anyOf": [rules, {"type": "null"}]} for name, rules in properties.items()}
    required = draw(st.sets(st.sampled_from(sorted(properties))))
    mixed = {name: (properties if name in required else optional)[name] for name in properties}
    return {"type": "object", "properties": mixed, "required": sorted(required), "$defs": DEFINED}


sound = sound_objects() | st.sampled_from(
    ({"enum": ["eu", "us"]}, {"enum": ["שלום", "<!channel>"], "type": "string"})
)
schemas = sound | sound | objects() | choices | st.dictionaries(texts, junk, max_size=3)
entered = st.sampled_from((
    "eu", "pens", "aaaa", "small", "option 7", "2027-01-31", "U0ADA", 3, 7.0, 1e22, 5, True, ["option 7", "option 1"],
    ["eu"], [],
)) | junk  # fmt: skip


@st.composite
def values(draw: st.DrawFn, form: AnswerForm) -> Any:
    """What somebody may send to this form: often what fits, now and then anything."""
    if not draw(st.integers(0, 5)):
        return draw(junk)
    if form.is_choice:
        return draw(st.sampled_from(form.fields[0].options) | texts | entered)
    given = {each.name: draw(fitting(each)) for each in form.fields}
    if draw(st.booleans()):
        return given
    given |= {each.name: draw(entered) for each in form.fields if draw(st.booleans())}
    left_out = draw(st.sets(st.sampled_from([each.name for each in form.fields])))
    more = draw(st.just({}) | st.dictionaries(texts | st.integers(0, 3) | st.none(), junk, max_size=1))
    return {name: each for name, each in given.items() if name not in left_out} | more


def fitting(field: Any) -> st.SearchStrategy[Any]:
    match field.kind:
        case FieldKind.ONE_OF:
            return st.sampled_from(field.options)
        case FieldKind.SEVERAL_OF:
            return st.lists(st.sampled_from(field.options), max_size=4)
        case FieldKind.INTEGER | FieldKind.NUMBER:
            return st.integers(-20, 20) | st.sampled_from(
                [int(each) for each in (field.least, field.most) if each is not None] or [1]
            )
        case FieldKind.YES_NO:
            return st.booleans()
        case FieldKind.DATE:
            return st.just("2027-01-31")
        case FieldKind.PERSON:
            return st.just("U0ADA")
        case _:
            return texts | st.text("ab1", min_size=4, max_size=12)


def made(schema: Any, *, other: bool = True) -> AnswerForm | None:
    """The form, or None if it was refused with a sentence."""
    try:
        return AnswerForm.of(schema, other=other)
    except UnusableForm as refused:
        assert len(str(refused)) > 10  # noqa: PT017 - either is right
        return None


def said(form: AnswerForm, value: Any) -> Any:
    """What the form keeps of it, or None if it was refused with a sentence for each field."""
    try:
        return form.read(value)
    except UnfitAnswer as unfit:
        assert unfit.problems  # noqa: PT017 - either is right
        for name, problem in unfit.problems.items():
            assert isinstance(name, str)
            assert problem[0].isupper() or not problem[0].isascii(), problem
            assert problem.endswith("."), problem
        return None


@given(schemas | junk, st.booleans())
def test_a_form_is_made_or_refused_with_a_sentence(schema: Any, other: bool) -> None:
    """No schema is an error of the service: it is a form with a few fields, which is stored whole, or a sentence."""
    form = made(schema, other=other)
    if form is None:
        return
    assert 1 <= len(form.fields) <= MAX_FIELDS
    again = AnswerForm.stored(json.loads(form.canonical))
    assert (again.fields, again.canonical, again.digest) == (form.fields, form.canonical, form.digest)
    for field in form.fields:
        assert isinstance(field.name, str)
        assert field.least is None or field.most is None or field.least <= field.most
        if field.kind is FieldKind.SEVERAL_OF and field.least is not None:
            assert field.least <= len(field.options), "nobody can choose so many"
        if field.kind is FieldKind.TEXT:
            assert field.most is not None
            assert field.most >= 1, "no text is as short as that"


KEYWORDS = (
    "type", "enum", "const", "title", "description", "format", "pattern", "minLength", "maxLength", "minimum",
    "maximum", "exclusiveMinimum", "exclusiveMaximum", "items", "minItems", "maxItems", "uniqueItems", "$ref", "anyOf",
    "allOf", "oneOf", "not", "properties", "additionalProperties",
)  # fmt: skip


@given(sound, st.sampled_from(KEYWORDS), junk, st.data())
def test_a_malformed_keyword_is_refused_with_a_sentence(
    schema: Any, keyword: str, value: Any, data: st.DataObject
) -> None:
    """Whatever stands under a keyword, of the form or of a field, JSON Schema itself would take what is accepted."""
    jsonschema = pytest.importorskip("jsonschema", reason="comes with the extra openai-agents")
    changed = copy.deepcopy(schema)
    fields = list(changed.get("properties", {}).values())
    data.draw(st.sampled_from([changed, *fields]))[keyword] = value
    if made(changed) is not None:
        jsonschema.Draft202012Validator.check_schema(changed, format_checker=None)


CHANGES = {
    "hidden": lambda _: "[hidden]",
    "nothing": lambda _: "",
    "blanks": lambda text: f" {text}\n",
    "longer": lambda text: text + "x" * 10_000,
    "partly": lambda text: text.replace("e", "•").replace("t", "•"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@given(schema=sound | schemas)
def test_a_masked_form_has_the_same_fields(change: Any, schema: Any) -> None:
    """Whatever is masked in a form, it can be shown: it has as many fields and options, of the same kinds."""
    form = made(schema)
    if form is None:
        return
    masked = form.with_texts(change)
    shown = [
        replace(each, label=own.label, hint=own.hint, options=own.options, pattern=own.pattern)
        for each, own in zip(masked.fields, form.fields, strict=True)
    ]
    assert shown == list(form.fields)
    for each, own in zip(masked.fields, form.fields, strict=True):
        assert each.options == tuple(map(change, own.options))
        assert each.pattern in (None, own.pattern)
        if own.hint:
            assert each.hint == change(own.hint)


def test_no_text_of_a_form_stays_unmasked() -> None:
    """A secret is hidden wherever an author may have put it, but in the names of fields."""
    pieces = {
        "title": "s3cret",
        "description": "s3cret",
        "default": {"type": "s3cret"},
        "examples": ["s3cret"],
    }
    kinds: list[dict[str, Any]] = [
        {"type": "string", "pattern": "s3cret"},
        {"enum": ["s3cret"]},
        {"const": "s3cret"},
    ]
    properties = {f"a{n}": kind | pieces for n, kind in enumerate(kinds)} | {
        "type": {"$ref": "#/$defs/format"}
    }
    schema = {
        "type": "object",
        "properties": properties,
        "$defs": {"format": kinds[1] | pieces},
        "x-by": "s3cret",
    }
    masked = AnswerForm.of(schema | pieces).with_texts(lambda text: text.replace("s3cret", "•••"))
    assert "s3cret" not in json.dumps(masked.schema)
    assert [each.kind for each in masked.fields] == ["text", "one_of", "one_of", "one_of"]


@given(schemas, st.booleans(), st.data())
def test_an_answer_is_kept_as_it_is_read_again(schema: Any, other: bool, data: st.DataObject) -> None:
    """What is kept is canonical, and reads as itself: the deciding transaction compares it with what it reads."""
    form = made(schema, other=other)
    kept = said(form, data.draw(values(form))) if form else None
    if form is None or kept is None:
        return
    assert AnswerForm.stored(json.loads(form.canonical)).read(kept.value) == kept


@given(sound | schemas, st.data())
def test_an_answer_fits_the_schema(schema: Any, data: st.DataObject) -> None:
    """Whatever is kept fits the author's schema, as an implementation of JSON Schema that is not ours reads it."""
    jsonschema = pytest.importorskip("jsonschema", reason="comes with the extra openai-agents")
    form = made(schema, other=False)
    kept = said(form, data.draw(values(form))) if form else None
    if form is None or kept is None:
        return
    validator = jsonschema.Draft202012Validator
    try:
        validator.check_schema(schema)
    except jsonschema.SchemaError:
        return  # then nothing fits it
    validator(schema, format_checker=validator.FORMAT_CHECKER).validate(kept.value)


FORM = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "maxLength": 20},
        "whole": {"type": "integer"},
        "number": {"type": "number"},
        "day": {"type": "string", "format": "date"},
        "one": {"enum": ["eu", "us"]},
        "some": {"type": "array", "items": {"enum": ["eu", "us"]}},
        "who": {"type": "string", "format": PERSON},
        "yes": {"type": "boolean"},
    },
}
HOSTILE = [
    math.nan, math.inf, -math.inf, 10**400, 10**5000, -(10**400), deep(500), {"a": {}}, {1: 2}, [None], "\ud800",
    "nul\x00", " ", "\u200b", object(), b"eu", Decimal(1), {"eu"}, ("eu",),
]  # fmt: skip


@pytest.mark.parametrize(
    "value",
    HOSTILE,
    ids=lambda value: f"{type(value).__name__} {str(value)[:12]}" if value != 10**5000 else "huge",
)
@pytest.mark.parametrize("name", [*FORM["properties"], None])
def test_hostile_values_are_refused_at_their_field(name: str | None, value: Any) -> None:
    """Whatever a program sends for a field, or in place of the whole answer, has a sentence there."""
    form = AnswerForm.of(FORM)
    with pytest.raises(UnfitAnswer) as unfit:
        form.read(value if name is None else {name: value})
    expected = set(value) if name is None and isinstance(value, dict) else {name or CHOICE}
    assert set(unfit.value.problems) == set(map(str, expected))


@pytest.mark.parametrize("value", HOSTILE[:-6], ids=lambda _: "")
def test_hostile_values_are_no_option(value: Any) -> None:
    """A choice takes one of its options, or own words that can be read and stored."""
    for other in (False, True):
        with pytest.raises(UnfitAnswer):
            AnswerForm.of({"enum": ["eu", "us"]}, other=other).read(value)


@pytest.mark.parametrize("number", [1e308, -1e308])
def test_large_numbers_are_numbers(number: float) -> None:
    """A double of any size is kept as it is; a whole number that no program reads exactly is not."""
    form = AnswerForm.of(FORM)
    assert form.read({"number": number}).value == {"number": number}
    with pytest.raises(UnfitAnswer) as unfit:
        form.read({"whole": number})
    assert set(unfit.value.problems) == {"whole"}


@pytest.mark.parametrize("pattern", CATASTROPHIC)
def test_no_pattern_takes_exponential_time(pattern: str) -> None:
    """A pattern that would keep a backtracking engine busy for years is matched at once."""
    form = AnswerForm.of({"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}})
    said(form, {"a": "a" * 9_000 + "!"})


def test_own_words_that_are_an_option_are_the_option() -> None:
    """Blanks around an option make it no text of the person's own, so it is nobody's advice."""
    form = AnswerForm.of({"enum": ["eu", "us"]})
    assert form.read(" eu\r\n") == form.read("eu")
    assert form.read("the moon").own_words


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ({"type": "integer", "multipleOf": 5}, "multipleOf"),
        ({"type": "string", "not": {"const": "x"}}, "not"),
        ({"$ref": "#/$defs/Size", "maxLength": 2}, "maxLength"),
        ({"enum": ["a"], "const": "b"}, "const"),
        ({"type": "array", "items": {"enum": ["a"], "minLength": 2}}, "minLength"),
    ],
)
def test_what_a_form_does_not_check_is_refused(rules: dict[str, Any], why: str) -> None:
    """A rule that would be left out of the form is said before anybody is asked, instead of not being kept."""
    with pytest.raises(UnusableForm, match=f"`{why}`"):
        AnswerForm.of({"type": "object", "properties": {"a": rules}, "$defs": DEFINED})


@pytest.mark.parametrize(
    "rules",
    [
        {"type": "string", "title": 5},
        {"type": "string", "description": ["x"]},
        {"type": "string", "pattern": 5},
        {"type": "string", "pattern": None},
        {"type": "string", "pattern": "["},
        {"type": "string", "minLength": "a"},
        {"type": "string", "minLength": -1},
        {"type": "string", "maxLength": 2.5},
        {"type": "string", "maxLength": True},
        {"type": "string", "maxLength": 0},
        {"type": "string", "format": 5},
        {"type": "integer", "minimum": "3"},
        {"type": "integer", "exclusiveMinimum": True, "minimum": 3},
        {"type": "integer", "minimum": 1.2, "maximum": 1.8},
        {"type": "integer", "format": "unix-time"},
        {"type": "number", "minimum": 4, "maximum": 3},
        {"type": "number", "exclusiveMinimum": 3},
        {"type": "number", "maximum": None},
        {"type": "array", "items": {"enum": ["a"]}, "minItems": "x"},
        {"type": "array", "items": {"enum": ["a"]}, "maxItems": -1},
        {"type": "array", "items": {"enum": ["a"]}, "minItems": 2},
        {"type": "array", "items": {"enum": ["a"], "title": 5}},
        {"type": "array", "items": {"enum": ["a"]}, "uniqueItems": "yes"},
        {"enum": "x"},
        {"enum": {"a": 1}},
        {"const": 5},
        {"$ref": "#/$defs/Size", "title": 5},
        {"$ref": "#/properties/b"},
        True,
        None,
    ],
    ids=str,
)
def test_a_malformed_field_is_refused_under_its_name(rules: Any) -> None:
    """A keyword of the wrong kind bounds nothing, so the author reads which field has it."""
    properties = {"b": {"type": "string"}, "the_field": rules}
    with pytest.raises(UnusableForm, match=r"^the_field: "):
        AnswerForm.of({"type": "object", "properties": properties, "$defs": DEFINED})


@pytest.mark.parametrize(
    "changes", [{"required": 3}, {"required": ["b"]}, {"title": 5}, {"additionalProperties": 5}]
)
def test_a_malformed_form_is_refused(changes: dict[str, Any]) -> None:
    """The keywords beside the fields are checked as those of a field are."""
    with pytest.raises(UnusableForm, match=f"`{next(iter(changes))}` is"):
        AnswerForm.of({"type": "object", "properties": {"a": {"type": "string"}}, **changes})


@pytest.mark.parametrize("required", [1.5, True, None, "2", 0, 21])
def test_so_many_answers_is_a_whole_number(required: Any) -> None:
    """Half an answer and none are refused."""
    with pytest.raises(UnusableForm, match="`answers_required`"):
        AnswerForm.of({"enum": ["a"]}, answers_required=required)


@pytest.mark.parametrize(
    ("name", "least", "most"), [("int8", -128, 127), ("uint16", 0, 65_535), ("uint32", 0, 4_294_967_295)]
)
def test_the_format_of_a_number_bounds_it(name: str, least: int, most: int) -> None:
    """Schemas made from typed languages say how wide a number is; what does not fit is refused at its field."""
    form = AnswerForm.of({"type": "object", "properties": {"a": {"type": "integer", "format": name}}})
    assert [form.read({"a": each}).value["a"] for each in (least, most)] == [least, most]
    for beyond in (least - 1, most + 1):
        with pytest.raises(UnfitAnswer):
            form.read({"a": beyond})


@example(["a", "b", "c"])
@given(st.lists(names, min_size=1, max_size=MAX_FIELDS, unique=True))
def test_fields_keep_the_authors_order(ordered: list[str]) -> None:
    """People see the fields as the author wrote them, although canonical JSON sorts them."""
    form = AnswerForm.of({"type": "object", "properties": {name: {"type": "string"} for name in ordered}})
    assert [each.name for each in AnswerForm.stored(json.loads(form.canonical)).fields] == ordered


def test_entries_are_read_as_their_fields_take_them() -> None:
    """Texts become numbers, options and yes or no; blanks are no entry, and what is none of its kind stays a text."""
    fields = {
        "item": {"type": "string"},
        "count": {"type": "integer"},
        "size": {"enum": ["S", "L"]},
        "colours": {"type": "array", "items": {"enum": ["red", "blue"]}},
        "gift": {"type": "boolean"},
    }
    form = AnswerForm.of({"type": "object", "properties": fields})

    def read(*texts: list[str]) -> Any:
        return AnswerEntries(form, texts).read()

    everything = read([" pens\nred "], [" 3"], ["1"], ["0", "1"], ["yes"])
    assert everything == {
        "item": "pens\nred",
        "count": 3,
        "size": "L",
        "colours": ["red", "blue"],
        "gift": True,
    }
    assert read([" "], [], [""], [], ["\t"]) == {}
    assert read([], ["1_0"], [], [], ["yes", "no"]) == {"count": "1_0", "gift": "yes\nno"}
    for unknown in ("2", "S", "-1"):
        with pytest.raises(UnfitAnswer, match="size"):
            read([], [], [unknown], [], [])
    choice = AnswerForm.of({"enum": ["eu", "us"]})
    assert AnswerEntries(choice, [["1"]], " ").read() == "us"
    assert AnswerEntries(choice, [[" "]], " moon ").read() == "moon"
    for texts, own in (([["1"]], "moon"), ([[]], None)):
        with pytest.raises(UnfitAnswer, match="not both"):
            AnswerEntries(choice, texts, own).read()
