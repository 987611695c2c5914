"""`description_template`: values in place, and nothing but values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.domain.templates import check, render
from signoff.description import shown
from signoff.formats import Money


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("Refund ${facts.price} for order {args.order_id}", "Refund $1500 for order 7"),
        ("{{{args.order_id}}} {{args.order_id}}", "{7} {args.order_id}"),
        ("{args.to.name}: {args.items.1.sku}", "“Ann”: “B”"),
        ("{args.to}", '{"name":"Ann"}'),
        ("{args.ok} {args.none}", "true null"),
        (
            "{args.missing} {args.order_id.deeper} {args.items.9}",
            "⟨missing: args.missing⟩ ⟨missing: args.order_id.deeper⟩ ⟨missing: args.items.9⟩",
        ),
        ("{args.text}", "“{facts.price} %s <!channel>”"),
        ("{args.day} {args.sum}", "2027-01-31 1,499.00"),
        ("no placeholder", "no placeholder"),
    ],
)
def test_placeholders_show_values_as_plain_text(template, expected):
    """Each placeholder becomes its value, once; a path that leads nowhere is said to be missing."""
    args = {
        "order_id": 7, "to": {"name": "Ann"}, "items": [{"sku": "A"}, {"sku": "B"}], "ok": True, "none": None,
        "text": "{facts.price} %s <!channel>", "day": "2027-01-31", "sum": "1,499.00",
    }  # fmt: skip
    assert render(template, args, {"price": 1500.0}) == expected


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{order_id}", "must start with args or facts"),
        ("{agent.name}", "must start with args or facts"),
        ("{args.a!r}", "not a path"),
        ("{args.a:>10}", "not a path"),
        ("{args[0]}", "not a path"),
        ("{}", "not a path"),
        ("{args..a}", "not a path"),
        ("abc {args.a", "column 5"),
        ("abc }", "column 5"),
    ],
)
def test_what_could_not_be_filled_in_is_refused_at_load(template, problem):
    """An unknown root, a format, an index in brackets or a loose brace is an error when the file is read."""
    with pytest.raises(ValueError, match=problem):
        check(template)


def test_attributes_of_objects_are_out_of_reach():
    """A template reads JSON members only, so it can never reach Python's own attributes."""
    assert render("{args.x.__class__}", {"x": "s"}, None) == "⟨missing: args.x.__class__⟩"


def test_long_values_are_cut_and_counted():
    """At most 60 characters of a text are shown, 200 of any other value, and how many more there are is said."""
    assert shown(render("{args.x}!", {"x": "a" * 250}, None)) == "“" + "a" * 60 + "…” (+190 characters)!"
    assert shown(render("{args.x}!", {"x": [1] * 150}, None)) == "[" + "1," * 99 + "1… (+101 characters)!"


@given(st.text(st.characters(categories=["Pi", "Pf", "Po", "Ps", "So"])))
def test_no_text_closes_its_quotation_marks(value):
    """What stands between the marks has none of its kind, so the words outside are the operator's."""
    shown = render("Refund {args.x} now", {"x": value}, None)
    quotation = shown.removeprefix("Refund ").removesuffix(" now")
    begin, end = quotation[0], quotation[-1]
    assert begin + end in ("“”", "«»")
    assert not {begin, end} & set(quotation[1:-1])
    assert not set(quotation[1:-1]) & set("‟″＂❝❞")


@pytest.mark.parametrize(
    ("value", "quotation"),
    [
        ('rm -rf "$DIR"/x', '“rm -rf "$DIR"/x”'),
        ("rm -rf '$DIR'/x", "“rm -rf '$DIR'/x”"),
        ("say “hello”", "«say “hello”»"),
        ("«oui» “yes”", "“«oui» ⟦U+201C⟧yes⟦U+201D⟧”"),
        ("5″ wide", "“5⟦U+2033⟧ wide”"),
    ],
)
def test_quotation_marks_of_a_value_are_shown_exactly(value, quotation):
    """Two commands that differ by a quotation mark never look the same."""
    assert render("{args.x}", {"x": value}, None) == quotation


@given(st.text(), st.integers(0, 2**53 - 1))
def test_every_text_can_be_written_literally(literal, value):
    """A text with its braces doubled renders as itself, and an inserted value is never read as a template."""
    doubled = literal.replace("{", "{{").replace("}", "}}")
    assert render(doubled + "{args.x}", {"x": value}, None) == literal + str(value)


def test_a_fact_without_json_form_is_said_to_be_unreadable():
    """A value that JSON does not have does not break the card that people have to see."""
    assert render("{facts.x}", {}, {"x": float("nan")}) == "⟨unreadable: facts.x⟩"


def test_money_in_a_title_is_what_policy_declares():
    """Declared paths are written as money, deep ones and those of lists too; every other number as it is."""
    args = {
        "amount": 1,
        "lines": [{"price": 1899}, {"price": "20.5"}],
        "rate": 1.5,
        "paid": True,
        "by": {"0": 3},
    }
    money = Money.declared(["facts.price", "args.lines.price", "args.rate.x", "args.paid", "args.by.price"])
    template = "{facts.price} {args.amount} {args.lines.0.price} {args.lines.1.price}"
    template += " {args.rate} {args.paid} {args.by.0}"
    assert render(template, args, {"price": 1899}, money) == "1,899.00 1 1,899.00 20.50 1.5 true 3"
    assert render(template, args, {"price": 1899}) == "1899 1 1899 20.5 1.5 true 3"
    assert render("{args.lines.7.price} {args.rate.x}", args, None, money).count("missing") == 2
