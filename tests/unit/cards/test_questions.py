"""Random questions on every surface: what Slack takes, what stays dead, and options that are never cut."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agent.domain.answer_fields import FieldKind
from agent.domain.answer_schemas import MAX_FIELDS, PERSON
from agent.domain.answers import AnswerForm, UnfitAnswer
from agent.domain.request import RequestStatus, Verdict
from agent.domain.request_view import DecisionView, RequestView, VoteView
from slackbot.cards import inert, request_card, request_details, thread_line
from slackbot.cards.question import offered
from slackbot.cards.question_form import (
    FIELD,
    INPUT,
    MAX_OPTION,
    OTHER,
    question_errors,
    question_modal,
    read_question_modal,
)
from tests.unit.cards.conftest import CREATED, GRACE, KNOWN_IDS
from tests.unit.cards.test_injection import ATTACKS
from tests.unit.domain.test_answers import made, said, schemas, values

CARRY = "n0nce_n0nce.01930000-0000-7000-8000-000000000001.1 C0REVIEW 1700000000.000100"
QUICK = settings(
    max_examples=60,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
PEOPLE = KNOWN_IDS | {"U0BOSS"}


def asking(samples: Any, form: AnswerForm, **changes: Any) -> RequestView:
    view: RequestView = samples.view(answer_form=form, **changes)
    return view


def over(view: RequestView, value: Any) -> RequestView:
    at = CREATED + timedelta(minutes=5)
    vote = VoteView(GRACE, Verdict.ANSWER, None, at, value)
    decision = DecisionView(RequestStatus.ANSWERED, GRACE, None, at)
    return replace(view, status=RequestStatus.ANSWERED, votes=(vote,), decision=decision)


def judge_question(samples: Any, referee: Any, form: AnswerForm, **changes: Any) -> dict[str, Any]:
    """The card, its details and its form; returns the form."""
    view = asking(samples, form, **changes)
    card = request_card(view, delivery_id="d")
    referee.judge(card)
    referee.judge(request_details(view))
    drawn = question_modal(view, CARRY)
    referee.judge_view(drawn)
    for each in inputs(drawn):
        judge_input(each["element"])
    shown = [
        label for label in referee.buttons(card) if label in {inert.line(each, 30) for each in offered(form)}
    ]
    assert len(shown) == len(offered(form)), "each option has a button of its own"
    assert_whole(form, drawn, referee)
    return drawn


def inputs(drawn: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in drawn["blocks"] if each["type"] == "input"]


def judge_input(element: dict[str, Any]) -> None:
    """What Slack documents for these inputs, and no validator checks."""
    if element["type"] == "plain_text_input":
        assert 1 <= element["max_length"] <= 3000
    if element["type"] == "number_input":
        least, most = (element.get(name) for name in ("min_value", "max_value"))
        for bound in filter(None, (least, most)):
            assert element["is_decimal_allowed"] or "." not in bound, (
                "a whole number's bound is a whole number"
            )
            float(bound)
        assert least is None or most is None or float(least) <= float(most)


def assert_whole(form: AnswerForm, drawn: dict[str, Any], referee: Any) -> None:
    """Every option can be read to its end, in a menu or above it; or the form sends people to the page."""
    words, menus = referee.words(drawn), [each["element"].get("options", []) for each in inputs(drawn)]
    if not menus:
        assert "on its page" in words
        assert "submit" not in drawn
        return
    for field, menu in zip(form.fields, menus, strict=False):
        if field.kind not in (FieldKind.ONE_OF, FieldKind.SEVERAL_OF):
            continue
        assert [each["value"] for each in menu] == [str(at) for at in range(len(field.options))]
        for option, entry in zip(field.options, menu, strict=True):
            whole = inert.line(option, 100_000)
            assert entry["text"]["text"] == whole or whole in words, whole[:60]
            assert referee.slack_length(entry["text"]["text"]) <= MAX_OPTION


@QUICK
@given(data=st.data())
def test_no_question_breaks_out_of_its_card(data: st.DataObject, samples: Any, referee: Any) -> None:
    """Whatever may be asked for, Slack takes the card, the form, the decided card and the line, and cuts no option."""
    form = made(data.draw(schemas), other=data.draw(st.booleans()))
    if form is None:
        return
    judge_question(samples, referee, form)
    kept = said(form, data.draw(values(form)))
    if kept is None:
        return
    people = PEOPLE | {"U0ADA"}
    decided = over(asking(samples, form), kept.value)
    referee.judge(request_card(decided, delivery_id="d"), people)
    referee.judge(request_details(decided), people)
    line = {"line": "answered", "user": "U0GRACE", "at": CREATED.isoformat(), "answer": kept.value}
    referee.judge(thread_line(line), people)


def of_fields(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


CYRILLIC = "согласовать возврат средств покупателю по заказу номер "
WORST: dict[str, dict[str, Any]] = {
    "a hundred options": {"enum": [f"option {n}" for n in range(100)]},
    "a hundred long ones": {"enum": [f"{n} " + "word " * 18 + "end" for n in range(100)]},
    "one of ten thousand characters": {"enum": ["x" * 10_000, "y"]},
    "one of many lines": {"enum": ["line\n" * 200 + "end", "y"]},
    "one of emoji": {"enum": ["👍" * 40, "👍" * 41]},
    "one of escapes": {"enum": ["&" * 16, "<" * 20, "&" * 2_000]},
    "right to left": {"enum": ["שלום עולם", "مرحبا", "\u202eabc", "אבג 12 def"]},
    "ten menus of a hundred": of_fields(
        **{f"f{n}": {"enum": [f"{CYRILLIC}{at}" for at in range(100)]} for n in range(MAX_FIELDS)}
    ),
    "ten of everything long": of_fields(
        **{
            "n" * 300 + str(n): {"type": "string", "title": "t" * 9_000, "description": "d" * 9_000}
            for n in range(MAX_FIELDS)
        }
    ),
    "blank labels": of_fields(
        a={"type": "string", "title": " ", "description": " "}, b={"enum": ["x"], "title": "\u200b"}
    ),
    "large bounds": of_fields(
        a={"type": "number", "minimum": -1e308, "maximum": 1e308},
        b={"type": "integer", "minimum": 0.5, "maximum": 9.5},
        c={"type": "integer", "exclusiveMinimum": 0.5},
        d={"type": "string", "maxLength": 1},
        e={"type": "string", "minLength": 4_000},
    ),
}


@pytest.mark.parametrize("schema", WORST.values(), ids=WORST)
def test_the_worst_questions(schema: dict[str, Any], samples: Any, referee: Any) -> None:
    """The longest, most and ugliest options and labels still make a card and a form, or send people to the page."""
    judge_question(samples, referee, AnswerForm.of(schema))


@pytest.mark.parametrize(
    "schema", [WORST["a hundred options"], WORST["a hundred long ones"], WORST["right to left"]]
)
def test_the_form_of_many_options_has_all(schema: dict[str, Any], samples: Any, referee: Any) -> None:
    """A hundred options, also of a hundred characters, fit into the form; none needs the page."""
    form = AnswerForm.of(schema)
    assert inputs(judge_question(samples, referee, form))


@pytest.mark.parametrize("attack", ATTACKS, ids=range(len(ATTACKS)))
def test_a_question_stays_inert(samples: Any, referee: Any, attack: str) -> None:
    """In a label, a hint, an option, own words and what was filled in, an attack is only read."""
    text = attack.replace("\x00", "").encode("utf-8", "replace").decode().strip()[:9_000]
    fields = {
        f"a{text}": {"type": "string", "title": f"a{text}", "description": text},
        "one": {"enum": [f"a{text}", "b"]},
        "who": {"type": "string", "format": PERSON},
    }
    form = AnswerForm.of(of_fields(**fields))
    value = {f"a{text}": f"a{text}"[:9_000], "one": f"a{text}", "who": "U0GRACE"}
    judge_question(samples, referee, form, description=attack)
    decided = over(asking(samples, form), form.read(value).value)
    referee.judge(request_card(decided))
    referee.judge(request_details(decided))
    referee.judge(thread_line({"line": "answered", "user": "U0GRACE", "answer": value}))
    choice = AnswerForm.of({"enum": [f"a{text}", "b"]})
    judge_question(samples, referee, choice, description=attack)
    referee.judge(request_card(over(asking(samples, choice), f"own {text}")))
    referee.judge(thread_line({"line": "answered", "user": "U0GRACE", "answer": f"own {text}"}))


ANY_STATE = st.dictionaries(
    st.sampled_from(("value", "selected_option", "selected_options", "selected_user", "selected_date", "x")),
    st.sampled_from(("0", "99", "-1", "٣", "²", "1e3", "NaN", "Infinity", "1_000", "9" * 5_000, "yes", ""))
    | st.sampled_from((None, 5, {}, [[]]))
    | st.sampled_from(({"value": "0"}, {"value": "1000"}, {"value": None}, [{"value": "1"}, {"value": "x"}, 7])),
)  # fmt: skip


@QUICK
@given(data=st.data())
def test_forged_submissions_are_read_or_refused(data: st.DataObject) -> None:
    """Whatever a forged submission holds, it is read as the form's own value, or refused at an input of the form."""
    form = made(data.draw(schemas), other=data.draw(st.booleans()))
    if form is None:
        return
    blocks = [f"{FIELD}{at}" for at in range(len(form.fields))] + [OTHER, f"{FIELD}99", "signoff:reason"]
    state: st.SearchStrategy[Any] = st.fixed_dictionaries({INPUT: ANY_STATE}) | st.just({}) | st.none()
    given_values = data.draw(st.dictionaries(st.sampled_from(blocks), state))
    try:
        kept = form.read(read_question_modal(given_values, form).read())
    except UnfitAnswer as unfit:
        there = {"blocks": [{"type": "input", "block_id": each} for each in blocks[:-2]]}
        errors = question_errors(there, form, unfit)
        assert errors
        assert errors.keys() <= set(blocks)
        assert all(errors.values())
    else:
        assert form.read(kept.value) == kept


def test_a_question_names_no_risk(samples: Any) -> None:
    """An answer authorises nothing, so a question that wants one shows no risk; a question for yes or no does."""
    view = samples.view()
    asked = replace(view, answer_form=AnswerForm.of({"enum": ["eu", "us"]}))
    assert "risk" in request_card(view).text.lower()
    assert "risk" not in request_card(asked).text.lower()
