import pytest
from gridtext import Style, StyleError, Table, TableError


@pytest.fixture
def table():
    return Table(["name", "price"], [["tea", 2.5], ["coffee", 3], ["water", None]])


def test_plain(table):
    assert table.render().split("\n") == ["name    price", "------  -----", "tea       2.5", "coffee      3", "water"]


def test_box(table):
    assert table.render(style="box", formats={"price": ".2f"}, missing="free").split("\n") == [
        "┌────────┬───────┐",
        "│ name   │ price │",
        "├────────┼───────┤",
        "│ tea    │  2.50 │",
        "│ coffee │  3.00 │",
        "│ water  │  free │",
        "└────────┴───────┘",
    ]


def test_grid_has_rules_between_rows():
    text = Table(["a"], [[1], [2]]).render(style="grid")
    assert text.split("\n") == ["+---+", "| a |", "+===+", "| 1 |", "+---+", "| 2 |", "+---+"]


def test_markdown_marks_alignment(table):
    lines = table.render(style="markdown", align={"name": "center"}).split("\n")
    assert lines[1] == "|:------:|------:|"
    assert Table(["a"], [["x"]]).render(style="markdown").split("\n")[1] == "|-----|"


def test_without_header():
    assert Table(["a", "b"], [[1, 22]]).render(style="compact", header=False) == "1 22"


def test_alignment(table):
    lines = table.render(style="compact", align={"name": "right", "price": "left"}).split("\n")
    assert lines == ["  name price", "   tea 2.5", "coffee 3", " water"]


def test_wrapped_cells():
    text = Table(["n", "text"], [[1, "one two three"]]).render(style="box", max_width=7)
    assert text.split("\n")[3:5] == ["│ 1 │ one two │", "│   │ three   │"]


def test_line_breaks_in_cells():
    assert Table(["a"], [["x\ny"]]).render().split("\n") == ["a", "-", "x", "y"]


def test_numbers_as_text_are_left_aligned():
    assert Table(["wide"], [["1"]]).render(style="compact").split("\n")[1] == "1"
    assert Table(["wide"], [[1]]).render(style="compact").split("\n")[1] == "   1"


def test_rows_as_dictionaries(table):
    table.add({"price": 1})
    assert table.rows[-1] == [None, 1]
    with pytest.raises(TableError, match="unknown columns: size"):
        table.add({"size": 1})


def test_row_of_wrong_length(table):
    with pytest.raises(TableError, match="row has 1 cells, not 2"):
        table.add(["x"])


def test_columns_must_differ():
    with pytest.raises(TableError):
        Table(["a", "a"])


def test_column_and_select(table):
    assert table.column("price") == [2.5, 3, None]
    assert table.select("price", "name").rows[0] == [2.5, "tea"]
    with pytest.raises(TableError, match="there are: name, price"):
        table.column("size")


def test_where(table):
    assert table.where(lambda row: row["price"] is not None and row["price"] > 2.5).column("name") == ["coffee"]


def test_sort_puts_missing_values_last(table):
    assert table.sort("price").column("name") == ["tea", "coffee", "water"]
    assert table.sort("price", reverse=True).column("name") == ["coffee", "tea", "water"]


def test_sort_by_several_columns():
    table = Table(["a", "b"], [[2, 1], [1, 2], [1, 1]])
    assert table.sort("a", "b").rows == [[1, 1], [1, 2], [2, 1]]


def test_transpose(table):
    turned = table.transpose()
    assert turned.columns == ["name", "tea", "coffee", "water"]
    assert turned.rows == [["price", 2.5, 3, None]]
    assert table.transpose("x").columns[0] == "x"


def test_rows_are_copied():
    row = [1]
    table = Table(["a"], [row])
    row[0] = 2
    assert table.rows == [[1]]


def test_unknown_style_and_columns(table):
    with pytest.raises(StyleError, match="there are: plain"):
        table.render(style="fancy")
    with pytest.raises(TableError):
        table.render(formats={"size": "d"})


def test_own_style():
    assert Table(["a", "b"], [[1, 2]]).render(style=Style(between=";")) == "a;b\n1;2"


def test_empty_table():
    assert Table(["a", "bc"]).render() == "a  bc\n-  --"
    assert len(Table(["a"])) == 0


def test_equality(table):
    assert table == Table(table.columns, table.rows)
    assert table != Table(["x"])
    assert table != 1
