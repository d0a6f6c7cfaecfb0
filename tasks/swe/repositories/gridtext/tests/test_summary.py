import pytest
from gridtext import Table, TableError, group_rows, pivot, read_csv, read_markdown, totals
from gridtext.reading import convert


@pytest.fixture
def sales():
    return Table(
        ["city", "month", "amount"],
        [["Rome", "Jan", 5], ["Oslo", "Jan", 7], ["Rome", "Feb", 3], ["Rome", "Jan", None], ["Rome", "Jan", 2]],
    )


def test_totals(sales):
    assert totals(sales).rows[-1] == ["total", None, 17]
    assert totals(sales, label="sum").rows[-1][0] == "sum"
    assert len(sales) == 5


def test_group_rows(sales):
    grouped = group_rows(sales, "city", spent=("sum", "amount"), n=("count", "amount"), top=("max", "amount"))
    assert grouped.columns == ["city", "spent", "n", "top"]
    assert grouped.rows == [["Rome", 10, 3, 5], ["Oslo", 7, 1, 7]]


def test_group_of_missing_values():
    table = Table(["a", "b"], [["x", None]])
    assert group_rows(table, "a", s=("sum", "b"), m=("mean", "b")).rows == [["x", 0, None]]


def test_first_last_and_mean(sales):
    grouped = group_rows(sales, "month", f=("first", "amount"), l=("last", "amount"), m=("mean", "amount"))
    assert grouped.rows == [["Jan", 5, 2, 14 / 3], ["Feb", 3, 3, 3.0]]


def test_unknown_function(sales):
    with pytest.raises(TableError, match="no function 'median'"):
        group_rows(sales, "city", x=("median", "amount"))


def test_pivot(sales):
    assert pivot(sales, "city", "month", "amount", fill=0) == Table(
        ["city", "Jan", "Feb"], [["Rome", 7, 3], ["Oslo", 7, 0]]
    )
    assert pivot(sales, "city", "month", "amount", "min").rows[0] == ["Rome", 2, 3]


@pytest.mark.parametrize(
    ("text", "value"),
    [("12", 12), ("-1.5", -1.5), ("1,250", 1250), ("1,25", "1,25"), ("", None), (" x ", "x"), ("1.2.3", "1.2.3")],
)
def test_convert(text, value):
    assert convert(text) == value
    assert type(convert(text)) is type(value)


def test_read_csv():
    table = read_csv("a, b\n1,x\n\n,2.5\n")
    assert table == Table(["a", "b"], [[1, "x"], [None, 2.5]])
    assert read_csv("a;b\n1;2", delimiter=";", typed=False).rows == [["1", "2"]]


def test_read_csv_errors():
    with pytest.raises(TableError, match="no header"):
        read_csv("\n")
    with pytest.raises(TableError, match="row 3 has 1 cells, not 2"):
        read_csv("a,b\n1,2\n3\n")


def test_read_markdown():
    text = "Some text\n\n| a | b \\| c |\n|:--|---:|\n| 1 | x |\n| 2 |\nAfter | it"
    assert read_markdown(text.replace("\nAfter", "\n\nAfter")) == Table(["a", "b | c"], [[1, "x"], [2, None]])


def test_read_markdown_round_trip(sales):
    assert read_markdown(sales.render(style="markdown")) == sales


def test_no_markdown_table():
    with pytest.raises(TableError):
        read_markdown("| a |\n| b |\n")
