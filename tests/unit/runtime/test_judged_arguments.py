"""What a tool's types make of the model's JSON is done before it is judged, and is what the function gets."""

from __future__ import annotations

import datetime as dt
import enum
import math
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    Base64Bytes,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    HttpUrl,
    Json,
    PlainSerializer,
    PlainValidator,
    Secret,
    SecretBytes,
    SecretStr,
    StringConstraints,
    WithJsonSchema,
    computed_field,
    field_validator,
    model_validator,
)
from typing_extensions import TypedDict

from agent.runtime.judging.run_calls import as_of_now
from agent.runtime.tool import Tool, tool
from signoff.canonical import canonical_bytes
from signoff.errors import MalformedArguments
from signoff.values import Action

Lower = Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True)]
Cents = Annotated[int, BeforeValidator(lambda value: value * 100)]


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"

    @classmethod
    def _missing_(cls, value: object) -> Size | None:
        return next((each for each in cls if each.value == str(value).lower()), None)


class Place(BaseModel):
    name: Lower
    floor: int = 1
    tags: set[str] = set()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def shown(self) -> str:
        return f"{self.name} {self.floor}"


class Renamed(BaseModel):
    user_name: Lower = Field(alias="userName")


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Numbered(BaseModel):
    id: uuid.UUID = Field(default_factory=uuid.uuid4)


class Node(BaseModel):
    name: Lower
    below: list[Node] = []


class Growing(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def _more(cls, n: int) -> int:
        return n + 1


class Swapping(BaseModel):
    a: int
    b: int

    @model_validator(mode="before")
    @classmethod
    def _swap(cls, given: Any) -> Any:
        return {"a": given["b"], "b": given["a"]}


class UnreadDefault(BaseModel):
    env: Lower = "PROD"


class Encoded(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    data: bytes


class Opaque:
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque)

    __hash__ = None  # type: ignore[assignment]


@dataclass
class Parcel:
    to: Lower
    sizes: set[Size] = field(default_factory=set)


class Trip(TypedDict, total=False):
    day: dt.date
    to: Lower


class Point(NamedTuple):
    x: int
    y: Decimal = Decimal(1)


def taking(annotation: Any, default: Any = ...) -> Tool:
    def take(value: Any = None) -> None: ...

    take.__annotations__ = {"value": annotation}
    take.__defaults__ = None if default is ... else (default,)
    return tool(take)


@pytest.mark.parametrize(
    ("annotation", "given", "judged", "value"),
    [
        (Lower, " PROD ", "prod", "prod"),
        (Annotated[int, AfterValidator(lambda n: min(n, 10))], 50, 10, 10),
        (Annotated[str, BeforeValidator(lambda text: text.removeprefix("#"))], "#7", "7", "7"),
        (HttpUrl, "HTTPS://Example.COM", "https://example.com/", HttpUrl("https://example.com")),
        (
            Place, {"name": "ROOF", "tags": ["b", "a"]}, {"name": "roof", "floor": 1, "tags": ["a", "b"]},
            Place(name="roof", tags={"a", "b"}),
        ),
        (list[Place], [{"name": "A"}], [{"name": "a", "floor": 1, "tags": []}], [Place(name="a")]),
        (Renamed, {"userName": "ADA"}, {"userName": "ada"}, Renamed(userName="ada")),
        (Open, {"a": 1}, {"a": 1}, Open(a=1)),
        (Node, {"name": "A", "below": [{"name": "B"}]}, {"name": "a", "below": [{"name": "b", "below": []}]},
         Node(name="a", below=[Node(name="b")])),
        (set[int], [10, 9, 10], [9, 10], {9, 10}),
        (frozenset[str], ["b", "a"], ["a", "b"], frozenset("ab")),
        (set[int | str], ["1", 2, 10], [2, 10, "1"], {"1", 2, 10}),
        (dict[str, set[Decimal]], {"k": ["2.50", "10"]}, {"k": [2.5, 10]}, {"k": {Decimal("2.5"), Decimal(10)}}),
        (dt.date, "2026-01-31", "2026-01-31", dt.date(2026, 1, 31)),
        (dt.datetime, "2026-01-31 01:00:00+00:00", "2026-01-31T01:00:00Z", dt.datetime(2026, 1, 31, 1, tzinfo=dt.UTC)),
        (dt.time, "01:00", "01:00:00", dt.time(1)),
        (dt.timedelta, "PT3600S", "PT1H", dt.timedelta(hours=1)),
        (Decimal, "5000.0", 5000, Decimal(5000)),
        (Decimal, "1.50", 1.5, Decimal("1.5")),
        (Decimal, 5000, 5000, Decimal(5000)),
        (Decimal, "1E+3", 1000, Decimal(1000)),
        (Decimal, "0.1000000000000000000001", "0.1000000000000000000001", Decimal("0.1000000000000000000001")),
        (Decimal, "9007199254740993", "9007199254740993", Decimal(9007199254740993)),
        (
            Annotated[Decimal, PlainValidator(lambda text: Decimal(text.replace(",", ""))),
                      WithJsonSchema({"type": "string"}), PlainSerializer(str)],
            "1,000.50", "1000.50", Decimal("1000.50"),
        ),
        (Size, "L", "l", Size.LARGE),
        (Literal["a", 1], 1, 1, 1),
        (int | str, "5", "5", "5"),
        (int | str, 5, 5, 5),
        (uuid.UUID, "{12345678-1234-5678-1234-56781234ABCD}", "12345678-1234-5678-1234-56781234abcd",
         uuid.UUID("12345678-1234-5678-1234-56781234abcd")),
        (Path, "a//b/./c", "a/b/c", Path("a/b/c")),
        (Base64Bytes, "aGk=", "aGk=", b"hi"),
        (Encoded, {"data": "aGk="}, {"data": "aGk="}, Encoded(data=b"hi")),
        (float, -0.0, 0, 0.0),
        (float, 5, 5, 5.0),
        (ByteSize, "1 KB", 1000, ByteSize(1000)),
        (Json[dict[str, int]], '{ "a": 1 }', '{"a":1}', {"a": 1}),
        (Parcel, {"to": "ADA", "sizes": ["s", "l"]}, {"to": "ada", "sizes": ["l", "s"]}, Parcel("ada", {*Size})),
        (Trip, {"day": "2026-01-31", "to": "ROME"}, {"day": "2026-01-31", "to": "rome"},
         {"day": dt.date(2026, 1, 31), "to": "rome"}),
        (Point, {"x": 1}, [1, 1], Point(1, Decimal(1))),
        (Sequence[Lower], ["A"], ["a"], ["a"]),
        (Mapping[Lower, int], {"A": 1}, {"a": 1}, {"a": 1}),
        (deque[int], [1], [1], deque([1])),
        (tuple[int, Lower], [1, "A"], [1, "a"], (1, "a")),
        (Any, {"x": [1.0, None]}, {"x": [1, None]}, {"x": [1, None]}),
        (Annotated[Any, AfterValidator(set)], ["b", "a"], ["a", "b"], {"a", "b"}),
        (
            Annotated[Opaque, PlainValidator(lambda _: Opaque()), PlainSerializer(lambda _: "o"),
                      WithJsonSchema({"type": "string"})],
            "anything", "o", Opaque(),
        ),
    ],
)  # fmt: skip
def test_the_judged_json_is_what_the_function_gets(
    annotation: Any, given: Any, judged: Any, value: Any
) -> None:
    """The type converts first; reading the judged JSON gives the value, and judging it again changes nothing."""
    signature = taking(annotation).signature
    form = signature.complete({"value": given})
    assert canonical_bytes(form) == canonical_bytes({"value": judged})
    got = signature.judged_values(form)["value"]
    assert (got, type(got)) == (value, type(value))
    assert signature.complete(form) == form


def test_a_default_that_differs_each_time_is_filled_in_once() -> None:
    """The identity that people see is the one that the function gets."""
    signature = taking(Numbered).signature
    form = signature.complete({"value": {}})
    assert str(signature.judged_values(form)["value"].id) == form["value"]["id"]


@pytest.mark.parametrize(
    ("annotation", "given", "path"),
    [
        (Cents, 50, "$.value"),
        (Annotated[int, AfterValidator(lambda n: n + 1)], 50, "$.value"),
        (list[Cents], [0, 5], "$.value[1]"),
        (Growing, {"n": 1}, "$.value.n"),
        (dict[str, list[Growing]], {"a b": [{"n": 1}]}, "$.value['a b'][0].n"),
        (Swapping, {"a": 1, "b": 2}, "$.value.a"),
        (UnreadDefault, {}, "$.value.env"),
        (Open, {"a": 1, "b": 2}, "$.value.b"),
        (Annotated[str, PlainSerializer(lambda _: "***")], "hunter2", "$.value"),
        (Annotated[float, AfterValidator(lambda _: math.inf)], 1.0, "$.value"),
        (Annotated[int, AfterValidator(lambda _: 2**60)], 1, "$.value"),
        (Annotated[str, AfterValidator(lambda _: "\x00")], "a", "$.value"),
        (Annotated[Any, AfterValidator(lambda _: Opaque())], 1, "$"),
        (Annotated[Any, AfterValidator(lambda _: SecretStr("a"))], 1, "$"),
        (Annotated[str, BeforeValidator(lambda text: text.nothing)], "a", "$"),
        (bool, "yes", "$.value"),
        (bool, 1, "$.value"),
        (int, "5", "$.value"),
        (int, 1.5, "$.value"),
        (float, "1.5", "$.value"),
        (float, math.nan, "$.value"),
        (dt.timedelta, "tomorrow", "$.value"),
        (Decimal, "NaN", "$.value"),
        (Decimal, "Infinity", "$.value"),
    ],
)  # fmt: skip
def test_what_changes_when_it_is_read_again_is_malformed(annotation: Any, given: Any, path: str) -> None:
    """A value that is not read back as it was written goes back to the model with its path."""
    with pytest.raises(MalformedArguments) as refused:
        taking(annotation).signature.complete({"value": given})
    assert refused.value.path == path


@dataclass
class Half:
    a: InitVar[int]


@dataclass
class Counted:
    a: int
    b: int = field(init=False, default=1)


class Hidden(BaseModel):
    a: int = Field(1, exclude=True)


class Sometimes(BaseModel):
    a: int = Field(1, exclude_if=lambda a: a > 1)


class ReadAs(BaseModel):
    a: int = Field(validation_alias="b")


class WrittenAs(BaseModel):
    a: int = Field(serialization_alias="b")


class Within(BaseModel):
    a: int = Field(validation_alias=AliasPath("b", "c"))


class Loose(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    a: Annotated[Opaque, WithJsonSchema({"type": "string"})]


class Vault(BaseModel):
    keys: dict[str, list[SecretStr]]


class Raw(BaseModel):
    data: bytes | None = None


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (SecretStr, "use str, and name the argument in `redact`"),
        (SecretBytes, "use str"),
        (Secret[int], "use str"),
        (list[SecretStr] | None, "use str"),
        (Vault, "use str"),
        (bytes, "use str, or Base64Bytes"),
        (Raw, "use str, or Base64Bytes"),
        (Iterable[int], "use list"),
        (int | Callable[[], int], "use its name"),
        (Annotated[Loose, BeforeValidator(lambda _: Loose(a=Opaque()))], "use a pydantic model"),
        (Opaque, "no JSON schema"),
        (type[int], "use its name"),
        (Hidden, "include it"),
        (Sometimes, "include it"),
        (Half, "an ordinary field"),
        (Counted, "an ordinary field"),
        (ReadAs, "one `alias`"),
        (WrittenAs, "one `alias`"),
        (Within, "one `alias`"),
        (dict[str, list[ReadAs]], "one `alias`"),
    ],
)
@pytest.mark.filterwarnings("ignore::pydantic.json_schema.PydanticJsonSchemaWarning")
def test_a_type_without_a_stable_json_form_is_refused_when_the_tool_is_defined(
    annotation: Any, words: str
) -> None:
    """The text names the parameter, the reason and what to use instead."""
    with pytest.raises(TypeError, match=words) as refused:
        taking(annotation)
    assert 'parameter "value"' in str(refused.value)


class EitherName(BaseModel):
    a: int = Field(validation_alias=AliasChoices("a", "b"))


class ByName(BaseModel):
    model_config = ConfigDict(validate_by_name=True)
    a: int = Field(validation_alias="b")


@pytest.mark.parametrize("annotation", [EitherName, ByName])
def test_an_alias_that_reads_what_is_written_is_taken(annotation: Any) -> None:
    """The judged JSON has the name that is both written and read."""
    assert taking(annotation).signature.complete({"value": {"b": 1}}) == {"value": {"a": 1}}


@pytest.mark.parametrize(
    ("annotation", "default"), [(Lower, "PROD"), (Cents, 50), (Growing, Growing.model_construct(n=1))]
)
def test_a_default_is_what_its_own_type_reads(annotation: Any, default: Any) -> None:
    """A default that would become another value is refused when the tool is defined."""
    with pytest.raises(TypeError, match="its own type reads as another value"):
        taking(annotation, default)


def test_a_type_that_changed_its_mind_does_not_run() -> None:
    """What reads otherwise at the last moment is refused, not run."""
    cap = [100]
    signature = taking(Annotated[int, AfterValidator(lambda n: min(n, cap[0]))]).signature
    form = signature.complete({"value": 50})
    cap[0] = 10
    with pytest.raises(MalformedArguments) as refused:
        signature.judged_values(form)
    assert refused.value.path == "$.value"


def test_a_type_that_can_no_longer_be_written_does_not_run() -> None:
    """What cannot be compared with what was judged is refused, also where it is read for a claim."""
    broken: list[str] = []

    def written(n: int) -> int:
        if broken:
            raise RuntimeError(broken[0])
        return n

    taker = taking(Annotated[int, PlainSerializer(written)])
    decided = Action(taker.name, taker.version, taker.signature.complete({"value": 50}))
    broken.append("no rates today")
    with pytest.raises(MalformedArguments, match=r"cannot be written as JSON: .*no rates today"):
        taker.signature.judged_values(decided.arguments)
    with pytest.raises(MalformedArguments, match=r"cannot be written as JSON: .*no rates today"):
        as_of_now(taker, decided)


def test_a_claim_reads_what_was_decided_once_and_sees_what_its_type_makes_of_it_now() -> None:
    """Arguments that still read as decided are kept after one reading; others become what would run now."""
    cap, reads = [100], []

    def capped(n: int) -> int:
        reads.append(n)
        return min(n, cap[0])

    taker = taking(Annotated[int, AfterValidator(capped)])
    decided = Action(taker.name, taker.version, taker.signature.complete({"value": 50}))
    reads.clear()
    assert as_of_now(taker, decided) == decided
    assert reads == [50]
    cap[0] = 10
    assert as_of_now(taker, decided).arguments == {"value": 10}


@pytest.mark.parametrize("named", [("other", "1"), ("take", "0")], ids=["another tool", "another version"])
def test_what_was_decided_for_another_tool_or_version_is_this_tools_action_now(
    named: tuple[str, str],
) -> None:
    """Whoever compares it with the decision sees that it differs, although its arguments fit."""
    taker = taking(int)
    now = as_of_now(taker, Action(*named, {"value": 5}))
    assert (now.tool, now.tool_version, now.arguments) == (taker.name, taker.version, {"value": 5})
