"""What an author reads about a failure of their own code: the place, the message, and how to fix it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from agent.runtime import stored_text
from signoff import tool


def raised_by(function: Callable[..., Any], *arguments: Any) -> BaseException:
    """What the function raises."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is
        function(*arguments)
    return caught.value


def price_of(customer: str) -> float:
    """A look-up that fails."""
    return {"ada": 5.0}[customer]


def test_an_error_names_the_authors_line() -> None:
    """Type, message, file and line; the file's name alone, since paths are nobody's business."""
    line = price_of.__code__.co_firstlineno + 2
    said = stored_text.error_text(raised_by(price_of, "no such customer"))
    assert said == f"KeyError: 'no such customer' (test_author_errors.py:{line})"


def test_an_error_in_a_library_names_the_line_that_called_it() -> None:
    """A frame of Python or of an installed package helps an author less than their own."""

    def parse(text: str) -> Any:
        return json.loads(text)

    line = parse.__code__.co_firstlineno + 1
    assert stored_text.error_text(raised_by(parse, "{")).endswith(f"(test_author_errors.py:{line})")


def test_the_log_has_all_frames_of_the_author_and_no_value() -> None:
    """A log line leads from the raising function to the one that was called; arguments are masked in it."""

    def refund(customer: str) -> float:
        return price_of(customer)

    said = stored_text.log_text(raised_by(refund, "secret-customer"), {"customer": "secret-customer"})
    assert "secret-customer" not in said
    assert " in price_of, " in said
    assert " in refund, " in said


def test_an_error_of_ours_names_no_line() -> None:
    """Where the author's code was never reached there is no line to show."""
    assert stored_text.error_text(TimeoutError("it did not end")) == "TimeoutError: it did not end"


@dataclass
class Order:
    """A result that JSON has."""

    order_id: int


class Parcel:
    """A result that JSON does not have."""

    def __repr__(self) -> str:
        return "a parcel"


@pytest.mark.parametrize("value", [{"a": 1}, [1, 2.5], "text", None, True, Order(7)])
def test_results_that_are_json_are_kept_as_they_are(value: Any) -> None:
    """Nothing is added to them."""
    assert "not JSON" not in stored_text.result_text(value)


@pytest.mark.parametrize("value", [Parcel(), {"parcel": Parcel()}])
def test_a_result_that_is_not_json_says_so(value: Any) -> None:
    """People and the model read what was returned, and the author what to return instead."""
    said = stored_text.result_text(value)
    assert "a parcel" in said
    assert f"the tool returned {type(value).__name__}, which is not JSON" in said


def test_a_misspelt_option_of_a_tool_is_corrected() -> None:
    """`@tool(requires_aproval=True)` names the option that was meant."""
    with pytest.raises(
        TypeError, match=r'unknown option "requires_aproval" \(did you mean "requires_approval"\?\)'
    ):
        tool(requires_aproval=True)  # type: ignore[call-overload]
