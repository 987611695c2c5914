"""`layout`, `labels` and `hide`: how a checkpoint's cards read, and that nothing which decides is hidden."""

from __future__ import annotations

import pytest

from agent.domain.checkpoints import load
from agent.domain.errors import PolicyError
from signoff.description import shown
from signoff.formats import in_words
from signoff.json_paths import without
from signoff.values import Action

RULE = '[[checkpoint]]\ncheckpoint_id = "a"\naction_pattern = "pay"\n'
LIMIT = (
    '[[limit]]\nname = "sum"\naction_pattern = "x"\nof = "args.total"\nper = "all"\nwithin = "1h"\nmax = 1\n'
)


def test_the_keys_of_a_card_are_read() -> None:
    """As they are written, and kept with the request."""
    text = RULE + 'layout = "plain"\nlabels = { price = "Amount" }\nhide = ["trace", "args.meta.id"]'
    [rule] = load(text, filename="f").rules
    assert (rule.layout, rule.labels, rule.hide) == (
        "plain",
        (("price", "Amount"),),
        ("trace", "args.meta.id"),
    )
    assert type(rule).from_snapshot(rule.snapshot()) == rule


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ('when = "args.amount > 5"\nhide = ["amount"]', 'hide amount, but "when" reads args.amount'),
        ('when = "args.meta.id > 5"\nhide = ["meta"]', 'hide meta, but "when" reads args.meta.id'),
        ('when = "size(args.meta) > 5"\nhide = ["meta.id"]', 'hide meta.id, but "when" reads args.meta'),
        ('when = "has(args.meta.id)"\nhide = ["meta.id"]', 'hide meta.id, but "when" reads args.meta.id'),
        ('when = "args[\'amount\'] > 5"\nhide = ["other"]', 'hide other, but "when" reads args'),
        ('when = "args[facts.key] > 5"\nhide = ["args.other"]', 'hide args.other, but "when" reads args'),
        ('when = "\'x\' in args"\nhide = ["meta.x"]', 'hide meta.x, but "when" reads args'),
        ('when = "[args].exists(a, a.id > 1)"\nhide = ["id"]', 'hide id, but "when" reads args'),
        (
            'when = "args.rows.exists(r, r.id > 1)"\nhide = ["rows.id"]',
            'hide rows.id, but "when" reads args.rows',
        ),
        (
            'when = "args.rows[0] == facts.row"\nhide = ["rows.id"]',
            'hide rows.id, but "when" reads args.rows.0',
        ),
        ('when = "args.rows[0].id > 1"\nhide = ["rows.0"]', 'hide rows.0, but "when" reads args.rows.0.id'),
        (
            'description_template = "Pay {facts.price}"\nhide = ["price"]',
            'hide price, but "description_template" reads facts.price',
        ),
        (
            'description_template = "Pay {args}"\nhide = ["meta.id"]',
            'hide meta.id, but "description_template" reads',
        ),
        (
            'description_template = "Pay {args.rows.00.id}"\nhide = ["rows.id"]',
            'hide rows.id, but "description_template" reads args.rows.00.id',
        ),
        (
            'link_template = "https://a.example/{args.id}"\nhide = ["id"]',
            'hide id, but "link_template" reads args.id',
        ),
        (
            'email = ["a@example.com"]\nemail_facts = ["owner"]\nhide = ["facts.owner.name"]',
            'hide facts.owner.name, but "email_facts" reads facts.owner',
        ),
        ('hide = ["total"]', 'hide total, but the limit "sum" reads args.total'),
        ('hide = ["signoff_command.0"]', '"hide" cannot hide signoff_command, which says what runs'),
        ('hide = ["signoff_command"]', '"hide" cannot hide signoff_command, which says what runs'),
        ('hide = ["signoff_folder"]', '"hide" cannot hide signoff_folder, which says what runs'),
        ('hide = "price"', 'must be a list; write ["price"]'),
        ('labels = ["price"]', 'must be a table such as { price = "Amount" }'),
        ('labels = { a = "Sum", b = "Sum" }', "must not have the same label twice"),
        ('labels = { a = "The  sum", b = "the sum" }', "must not have the same label twice"),
        ('labels = { a = "B", b = "Sum" }', "must not call a what another argument or fact is named"),
        ('labels = { "a.b" = "Sum" }', "is not a name of an argument or a fact"),
        (f'labels = {{ price = "{"x" * 61}" }}', "must have labels of at most 60 characters"),
        ('layout = "nice"', "must be one of standard, plain"),
    ],
)
def test_what_decides_is_not_hidden(more: str, problem: str) -> None:
    """The loader refuses it with the reader, and any other mistake with what to write."""
    with pytest.raises(PolicyError) as refused:
        load(f"{LIMIT}{RULE}{more}", filename="f")
    assert problem in str(refused.value)


def test_a_label_of_sixty_characters_is_kept() -> None:
    """Blanks around it do not count."""
    [rule] = load(f'{RULE}labels = {{ price = " {"x" * 60} " }}', filename="f").rules
    assert rule.labels == (("price", "x" * 60),)


def test_what_nothing_reads_may_be_hidden() -> None:
    """A condition over one argument leaves the others free, and what has the same name elsewhere."""
    when = (
        "args.amount > 5 && args.rows.exists(r, r.id > 1) && args.rows2[0].n > args.note.size() // args.trace"
    )
    hidden = ("trace", "id", "facts.amount", "meta.amount", "rows2.1", "rows2.note")
    text = f'{LIMIT}{RULE}when = "{when}"\nhide = {list(hidden)}'
    assert load(text, filename="f").rules[0].hidden == hidden


def test_a_generated_title_counts_what_is_hidden() -> None:
    """With labels, and as words in the plain layout; from high risk on nothing is hidden."""
    text = RULE + 'layout = "plain"\nlabels = { amount = "Sum" }\nhide = ["trace"]'
    [rule] = load(text, filename="f").rules
    action = Action("pay_out", "1", {"amount": 5, "order_id": 7, "trace": "x"})
    assert shown(rule.describe(action, None)) == "Pay out · Sum: 5, Order id: 7, … (+1 argument)"
    raised = load(f'{text}\nrisk = "high"', filename="f").rules[0]
    assert shown(raised.describe(action, None)).endswith("Order id: 7, Trace: x")
    assert rule.called("Sum") == '"Sum"'  # no name passes for a labelled one


@pytest.mark.parametrize(
    ("more", "arguments", "title"),
    [
        (
            'layout = "plain"',
            {"order_id": 1, "orderId": 2, "x": 3},
            'Pay · "orderId": 2, "order_id": 1, X: 3',
        ),
        ('labels = { a = "Sum" }', {"a": 1, "sum": 2, "x": 3}, 'pay · Sum: 1, "sum": 2, x: 3'),
        ('layout = "plain"\nlabels = { a = "Sum" }', {"a": 1, "sum": 2}, 'Pay · Sum: 1, "sum": 2'),
        ("", {"signoff_folder": "/x", "in folder": "/y"}, 'pay · "in folder": “/y”, "signoff_folder": “/x”'),
        ("", {"sum": 1, "Sum": 2}, "pay · Sum: 2, sum: 1"),  # names as they are differ
    ],
)
def test_names_that_read_alike_are_told_apart(more: str, arguments: dict[str, int], title: str) -> None:
    """Blanks and case tell nothing apart; the operator's word stays, others stand in quotation marks."""
    [rule] = load(RULE + more, filename="f").rules
    assert shown(rule.describe(Action("pay", "1", arguments), None)) == title


def test_names_are_told_apart_wherever_they_are() -> None:
    """An argument, a fact and what is in a list stand on one card."""
    [rule] = load(f'{RULE}layout = "plain"', filename="f").rules
    called = rule.called_in({"rows": [{"orderId": 1}]}, {"order_id": 2, '"order_id"': 3})
    assert [called(name) for name in ("orderId", "order_id", '"order_id"', "rows", "new_one")] == [
        '"orderId"',
        '"order_id"',
        r'"\"order_id\""',
        "Rows",
        "New one",
    ]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("order_id", "Order id"),
        ("orderId", "Order id"),
        ("userURL", "User URL"),
        ("price", "Price"),
        ("a b", "a b"),
        ("7", "7"),
        ("_", "_"),
    ],
)
def test_names_as_words(name: str, words: str) -> None:
    """What is no name stays as it is."""
    assert in_words(name) == words


def test_values_left_out_are_counted() -> None:
    """Members of objects in lists, too; items of lists stay in their places. A name alone means the top."""
    values = {"id": 1, "rows": [{"id": 2, "n": 3}, 4], "meta": {"id": 5}, "args": {"id": 6}}
    assert without(values, ("id",), "args") == (
        {name: each for name, each in values.items() if name != "id"},
        1,
    )
    assert without(values, ("rows.id", "args.meta"), "args") == (
        {"id": 1, "rows": [{"n": 3}, 4], "args": {"id": 6}},
        2,
    )
    assert without(values, ("facts.id", "args.args.id"), "args") == (values | {"args": {}}, 1)
