import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.http.conftest import ThingBody, ThingQuery
from tollhouse.errors import Problem
from tollhouse.http.request_parser import parse_body, parse_query

JSON = "application/json"


def refused_parameter(raw):
    with pytest.raises(Problem) as raised:
        parse_query(raw, ThingQuery)
    assert raised.value.code == "invalid-parameter"
    return raised.value.facts


def refused_body(raw, content_type=JSON):
    with pytest.raises(Problem) as raised:
        parse_body(raw, content_type, ThingBody)
    return raised.value


def test_nothing_given_means_the_defaults():
    assert parse_query(b"", ThingQuery) == ThingQuery()
    assert parse_query(b"&&", ThingQuery) == ThingQuery()


def test_every_kind_of_parameter_is_read():
    raw = b"limit=5&share=0.25&sort=price&brand=a&brand=b+c&box=1,-2.5&is_new=true&q=%C3%A9t%C3%A9"
    assert parse_query(raw, ThingQuery) == ThingQuery(
        5, 0.25, "price", ["a", "b c"], (1.0, -2.5), True, "\u00e9t\u00e9"
    )


@pytest.mark.parametrize(
    "text", ["1e1", "020", "+5", "%2B5", "5.0", "nan", "null", "", " 5", "5%20", "0x5", "1_0", "\u0665", "-0x1", "0",
             "101", "-1", "9" * 30, "true"]
)  # fmt: skip
def test_whole_number_is_read_strictly(text):
    assert refused_parameter(f"limit={text}".encode())["parameter"] == "limit"


@pytest.mark.parametrize("text", ["nan", "NaN", "inf", "Infinity", "-inf", "1e999", ".5", "5.", "1,5", "0x1p3", "null",
                                  "", "1.5", "-0.1", "00.5", "1__0"])  # fmt: skip
def test_number_is_read_strictly(text):
    assert refused_parameter(f"share={text}".encode())["parameter"] == "share"


@pytest.mark.parametrize("text", ["True", "1", "yes", "TRUE", "null", "", "on"])
def test_claim_is_true_or_false(text):
    assert refused_parameter(f"is_new={text}".encode())["parameter"] == "is_new"


def test_choice_tells_what_may_be_chosen():
    facts = refused_parameter(b"sort=Price")
    assert facts["parameter"] == "sort"
    assert sorted(facts["allowed"]) == ["name", "price"]


@pytest.mark.parametrize("raw", [b"limit=5&limit=5", b"q=a&q=a", b"sort=name&sort=price", b"limit=5&limi%74=6"])
def test_single_parameter_is_given_once(raw):
    assert refused_parameter(raw)["parameter"] == raw.partition(b"=")[0].decode()


@pytest.mark.parametrize("raw", [b"box=1", b"box=1,2,3", b"box=1,", b"box=,", b"box=a,b", b"box=1;2", b"box=1,nan"])
def test_tuple_has_as_many_values_as_it_should(raw):
    assert refused_parameter(raw)["parameter"] == "box"


@pytest.mark.parametrize("raw", [b"q=%ff", b"q=\xff", b"q=%c3", b"q=a%00b", b"q=%ed%a0%80"])
def test_text_must_be_utf8_without_nul(raw):
    assert refused_parameter(raw)["parameter"] == "q"


@pytest.mark.parametrize("raw", [b"%ff=1", b"%00=1"])
def test_name_must_be_utf8_without_nul(raw):
    assert refused_parameter(raw)["parameter"]


@pytest.mark.parametrize("raw", [b"colour=red", b"Limit=5", b"limit%20=5", b"=5", b"limit[]=5", b"__class__=x"])
def test_unknown_name_is_refused_with_those_that_are_known(raw):
    assert refused_parameter(raw)["allowed"] == sorted(ThingQuery.__struct_fields__)


@pytest.mark.parametrize("raw", [b"q=", b"q=12345678901"])
def test_length_of_text_is_held(raw):
    assert refused_parameter(raw)["parameter"] == "q"


def test_operation_without_parameters_takes_none():
    assert parse_query(b"", None) is None
    with pytest.raises(Problem) as raised:
        parse_query(b"x=1", None)
    assert raised.value.facts["parameter"] == "x"


@given(st.binary(max_size=200))
def test_no_query_breaks_it(raw):
    try:
        parse_query(raw, ThingQuery)
    except Problem as problem:
        assert problem.status == 400  # noqa: PT017 - either outcome is right


def test_body_is_read():
    assert parse_body(b'{"name":"a","tags":["x"]}', JSON, ThingBody) == ThingBody("a", 0, ["x"])


def test_whole_number_may_be_written_with_a_point():
    assert parse_body(b'{"name":"a","size":2.0,"tags":["1.0"]}', JSON, ThingBody) == ThingBody("a", 2, ["1.0"])


@pytest.mark.parametrize(
    "content_type", ["application/json", "APPLICATION/JSON", "application/json; charset=utf-8", "application/ld+json"]
)
def test_json_goes_by_several_names(content_type):
    assert parse_body(b'{"name":"a"}', content_type, ThingBody).name == "a"


@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "application/jsonp", "text/json", "application/xml", "json"]
)
def test_body_of_another_type_is_refused(content_type):
    problem = refused_body(b'{"name":"a"}', content_type)
    assert problem.code == "unsupported-media-type"
    assert problem.status == 415


@pytest.mark.parametrize(
    ("raw", "member"),
    [
        (b"{}", "name"), (b'{"name":5}', "name"), (b'{"name":null}', "name"), (b'{"name":["a"]}', "name"),
        (b'{"name":"12345678901"}', "name"), (b'{"name":"a","size":-1}', "size"), (b'{"name":"a","size":"1"}', "size"),
        (b'{"name":"a","size":1.5}', "size"), (b'{"name":"a","size":true}', "size"),
        (b'{"name":"a","tags":"x"}', "tags"), (b'{"name":"a","tags":[1]}', "tags"),
        (b'{"name":"a","colour":"red"}', "colour"), (b'{"name":"a","Name":"b"}', "Name"),
    ],
)  # fmt: skip
def test_wrong_member_is_named(raw, member):
    problem = refused_body(raw)
    assert problem.code == "invalid-body"
    assert problem.facts["parameter"] == member
    assert member in problem.detail


@pytest.mark.parametrize(
    "raw",
    [b"", b" ", b"{", b"nul", b"null", b"[]", b'"x"', b"5", b"{'name':'a'}", b'{"name":"a"} x', b'{"name":"a",}',
     b"\xff\xfe", b'{"name":"\xff"}', b'{"name":NaN}', b"[" * 5_000, b'{"name":' * 5_000, b'{"tags":' + b"[" * 5_000],
)  # fmt: skip
def test_what_is_no_object_is_a_problem(raw):
    assert refused_body(raw).code == "invalid-body"


@given(st.binary(max_size=200))
def test_no_body_breaks_it(raw):
    try:
        parse_body(raw, JSON, ThingBody)
    except Problem as problem:
        assert problem.status == 400  # noqa: PT017 - either outcome is right
