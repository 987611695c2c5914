"""`link_template`: the button leads to the operator's host, whatever the arguments are."""

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.domain.templates import MAX_LINK, check_link, render_link

ORDER = "https://shop.example/orders/{args.order_id}"


@pytest.mark.parametrize(
    ("template", "args", "expected"),
    [
        (ORDER, {"order_id": 7}, "https://shop.example/orders/7"),
        (ORDER, {"order_id": "7/../../admin?x#y"}, "https://shop.example/orders/7%2F..%2F..%2Fadmin%3Fx%23y"),
        (ORDER, {"order_id": "ä b"}, "https://shop.example/orders/%C3%A4%20b"),
        (ORDER, {"order_id": True}, "https://shop.example/orders/true"),
        (ORDER + "?p={facts.price}", {"order_id": 7}, "https://shop.example/orders/7?p=12.5"),
        ("http://localhost:8080/{args.order_id}", {"order_id": "a"}, "http://localhost:8080/a"),
        ("https://shop.example/{{x}}", {}, "https://shop.example/{x}"),
    ],
)
def test_values_are_filled_in_encoded(template, args, expected):
    """Nothing that is reserved in an address survives in a value."""
    check_link(template)
    assert render_link(template, args, {"price": 12.5}) == expected


@pytest.mark.parametrize(
    "args",
    [
        {}, {"order_id": None}, {"order_id": ""}, {"order_id": {"a": 1}}, {"order_id": [1]},
        {"order_id": ".."}, {"order_id": "."}, {"order_id": "x" * MAX_LINK},
    ],
)  # fmt: skip
def test_without_a_plain_value_there_is_no_link(args):
    """A missing or nested value, a step up the path, and an address too long for a button give none."""
    assert render_link(ORDER, args, None) is None


@pytest.mark.parametrize(
    "template",
    [
        "", "{args.url}", "https://{args.host}/x", "https://shop.example{args.path}", "https://shop.example",
        "https://shop.example:{args.port}/", "//shop.example/x", "javascript:alert(1)/", "ftp://shop.example/x",
        "https://user@shop.example/", "https://shop.example\\@evil.example/", "https://shop.example/a b",
        "https://shop.example/\n", " https://shop.example/", "https:///x", "https://-shop.example/",
        "https://shop.example/{order_id}", "https://shop.example/{args.x", "https://shop.example/" + "x" * MAX_LINK,
    ],
)  # fmt: skip
def test_a_template_that_could_lead_elsewhere_is_refused(template):
    """Scheme and host are literal and complete before anything is filled in."""
    with pytest.raises(ValueError, match=r"."):
        check_link(template)


@given(st.text(), st.text())
def test_no_value_leaves_its_place(first, second):
    """Whatever the values, host, number of path segments and query stay the template's own."""
    link = render_link("https://shop.example/a/{args.x}/b?q={args.y}", {"x": first, "y": second}, None)
    if link is not None:
        parts = urlsplit(link)
        assert (parts.scheme, parts.netloc, parts.fragment) == ("https", "shop.example", "")
        assert parts.path.count("/") == 3
        assert parts.query.count("&") == 0
        assert link.isascii()
        assert link.isprintable()
