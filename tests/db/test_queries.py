"""Named SQL: what the parser takes for a parameter, and what it leaves alone."""

import pytest

from butlers.db.queries import fragments, load, parse


def only(body):
    return parse(f"-- it --\n{body}")["it"]


def test_sections_are_found_by_name():
    queries = parse("-- one --\n-- First.\nselect 1;\n\n-- two --\n-- Second.\nselect 2\n")
    assert {name: query.text for name, query in queries.items()} == {
        "one": "select 1",
        "two": "select 2",
    }
    assert queries["one"].name == "one"


def test_parameters_are_numbered_by_first_appearance_and_reused():
    query = only("select :b, :a, :b where x = :a")
    assert query.parameters == ("b", "a")
    assert query.positional == "select $1, $2, $1 where x = $2"
    assert query.text == "select :b, :a, :b where x = :a"
    assert query.bound(a=1, b=2)[1:] == (2, 1)


def test_a_parameter_that_begins_like_another_is_another():
    assert only("select :id, :ids, :id").positional == "select $1, $2, $1"


@pytest.mark.parametrize(
    ("body", "positional"),
    [
        ("select :a::uuid", "select $1::uuid"),
        ("select x::text, '{}'::jsonb", "select x::text, '{}'::jsonb"),
        ("select tags[1:2]", "select tags[1:2]"),
        ("select a:=:b", "select a:=$1"),
        ("select (:a)", "select ($1)"),
    ],
)
def test_casts_and_slices_are_not_parameters(body, positional):
    assert only(body).positional == positional


@pytest.mark.parametrize(
    "body",
    [
        "select ':a'",
        "select 'it''s :a'",
        "select '12:30', ' :b '",
        'select "odd :a name"',
        "select 'dash -- dash', ';'",
        'select "dash -- dash"',
    ],
)
def test_what_stands_in_quotes_is_left_as_written(body):
    query = only(body)
    assert (query.parameters, query.text, query.positional) == ((), body, body)


def test_quotes_do_not_hide_the_parameters_around_them():
    assert only("select :a || ':x' || :b").positional == "select $1 || ':x' || $2"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("-- the tenant's :rows\nselect 1", "select 1"),
        ("select 1 -- why :this, isn't it?\nfrom t", "select 1\nfrom t"),
        ("select 1\n  -- in between\nfrom t -- last", "select 1\nfrom t"),
        ("select 1; -- done", "select 1"),
    ],
)
def test_comments_are_gone(body, text):
    query = only(body)
    assert (query.text, query.parameters) == (text, ())


@pytest.mark.parametrize("values", [{}, {"a": 1}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "x": 2}])
def test_missing_and_surplus_arguments_are_refused_by_name(values):
    with pytest.raises(TypeError, match="it takes"):
        only("select :a, :b").bound(**values)


def test_a_statement_without_parameters_takes_none():
    assert only("select 1").bound() == ("select 1",)
    with pytest.raises(TypeError):
        only("select 1").bound(a=1)


def test_a_name_given_twice_is_refused():
    with pytest.raises(ValueError, match="one"):
        parse("-- one --\nselect 1\n-- one --\nselect 2")


def test_the_file_beside_a_module_is_read(tmp_path):
    (tmp_path / "things.sql").write_text("-- all --\n-- Ünïcode.\nselect 'ü'", encoding="utf-8")
    assert load(str(tmp_path / "things.py"))["all"].text == "select 'ü'"


NAMED = """
-- {named} --
-- Who it is; said once.
id, name

-- {seen} --
{named}, length(:text) as long

-- find --
-- One.
select {seen}, '{named}' from things where id = :id
"""


def test_what_statements_share_is_said_once_and_stands_in_each():
    assert list(parse(NAMED)) == ["find"]
    query = parse(NAMED)["find"]
    assert query.text == (
        "select id, name, length(:text) as long, '{named}' from things where id = :id"
    )
    assert query.parameters == ("text", "id")
    assert fragments(NAMED) == {"{named}": "id, name", "{seen}": "id, name, length(:text) as long"}


@pytest.mark.parametrize(
    "source",
    [
        "-- it --\nselect {unknown}",
        "-- it --\nselect {later}\n-- {later} --\n1",
        "-- {round} --\n{round}\n-- it --\nselect {round}",
    ],
)
def test_what_does_not_stand_above_cannot_be_mentioned(source):
    with pytest.raises(ValueError, match="is not defined above it"):
        parse(source)


def test_the_fragments_of_a_directory_are_for_all_its_files(tmp_path):
    (tmp_path / "fragments.sql").write_text("-- {named} --\n-- Who.\nid, name")
    (tmp_path / "things.sql").write_text("-- all --\nselect {named} from things")
    assert load(str(tmp_path / "things.py"))["all"].text == "select id, name from things"


LISTED = """\
-- {kind}: fact, rule --
-- {{kind}_text} --
-- What it says.
{kind}s.content

-- count --
-- All.
select 1

-- find_{kind}s --
-- Some.
select {{kind}_text} from {kind}s where id = :id
"""


def test_a_section_with_a_listed_word_in_its_name_is_there_once_for_each():
    found = parse(LISTED)
    assert list(found) == ["count", "find_facts", "find_rules"]
    assert found["find_rules"].text == "select rules.content from rules where id = :id"
