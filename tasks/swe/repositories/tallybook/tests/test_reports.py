import pytest
from tallybook import (
    Budget,
    ImportProblem,
    Ledger,
    LedgerError,
    Money,
    Posting,
    export_csv,
    import_csv,
    monthly_totals,
    statement,
)


@pytest.fixture
def ledger():
    ledger = Ledger()
    for name in ("bank", "food", "rent"):
        ledger.open(name)
    ledger.transfer("2024-01-05", "market", "bank", "food", Money(3000))
    ledger.transfer("2024-01-20", "market again", "bank", "food", Money(2000))
    ledger.transfer("2024-02-01", "rent", "bank", "rent", Money(80000))
    ledger.transfer("2024-02-10", "market", "bank", "food", Money(9000), tags=["b", "a"])
    return ledger


def test_statement(ledger):
    result = statement(ledger, "bank", "2024-01-20", "2024-02-01")
    assert result.opening == Money(-3000)
    assert [line[2:] for line in result.lines] == [(Money(-2000), Money(-5000)), (Money(-80000), Money(-85000))]
    assert result.closing == Money(-85000)
    assert result.change == Money(-82000)


def test_statement_leaves_out_other_entries(ledger):
    assert [line[1] for line in statement(ledger, "food", "2024-01-01", "2024-12-31").lines] == [
        "market", "market again", "market",
    ]  # fmt: skip


def test_statement_period(ledger):
    with pytest.raises(ValueError, match="ends before"):
        statement(ledger, "bank", "2024-02-01", "2024-01-01")
    assert statement(ledger, "bank", "2024-01-05", "2024-01-05").closing == Money(-3000)


def test_render(ledger):
    text = statement(ledger, "food", "2024-01-01", "2024-01-31").render(width=8)
    assert text.splitlines() == [
        "food",
        "opening                    0.00 EUR",
        "2024-01-05 market         30.00 EUR       30.00 EUR",
        "2024-01-20 market …       20.00 EUR       50.00 EUR",
        "closing                   50.00 EUR",
    ]


def test_monthly_totals(ledger):
    assert monthly_totals(ledger, "food") == {(2024, 1): Money(5000), (2024, 2): Money(9000)}


def test_budget_line(ledger):
    budget = Budget(ledger)
    budget.limit("food", Money(6000))
    line = budget.line("food", 2024, 1)
    assert (line.spent, line.left, line.used) == (Money(5000), Money(1000), 83)


def test_budget_carries_what_is_left(ledger):
    budget = Budget(ledger)
    budget.limit("food", Money(6000), carry=True)
    line = budget.line("food", 2024, 2, since=(2023, 12))
    assert line.carried == Money(7000)
    assert line.left == Money(4000)
    assert budget.line("food", 2024, 2).carried == Money(0)


def test_budget_does_not_carry_debts(ledger):
    budget = Budget(ledger)
    budget.limit("food", Money(4000), carry=True)
    assert budget.line("food", 2024, 3, since=(2024, 1)).carried == Money(0)


def test_overview_and_exceeded(ledger):
    budget = Budget(ledger)
    budget.limit("food", Money(6000))
    budget.limit("rent", Money(80000))
    assert [line.account for line in budget.overview(2024, 2)] == ["food", "rent"]
    assert budget.exceeded(2024, 2) == ["food"]
    assert budget.exceeded(2024, 1) == []


def test_budget_errors(ledger):
    budget = Budget(ledger)
    with pytest.raises(LedgerError):
        budget.limit("food", Money(-1))
    with pytest.raises(LedgerError):
        budget.line("food", 2024, 1)
    budget.limit("food", Money(0))
    assert budget.line("food", 2024, 1).used == 0


def test_import():
    ledger = Ledger()
    ledger.open("a")
    ledger.open("b")
    text = "date,text,from,to,amount,tags\n2024-01-01,one,a,b,1.50,x; y\n2024-01-02,two,a,c,2,\nsoon,three,a,b,3,\n"
    made, problems = import_csv(ledger, text)
    assert made == 1
    assert [problem.row for problem in problems] == [3, 4]
    assert problems[0] == ImportProblem(3, "unknown account 'c'")
    assert ledger.entries[0].tags == {"x", "y"}


def test_import_skips_known_rows():
    ledger = Ledger()
    ledger.open("a")
    ledger.open("b")
    text = "date;from;to;amount\n2024-01-01;a;b;1\n"
    assert import_csv(ledger, text, delimiter=";") == (1, [])
    assert import_csv(ledger, text, delimiter=";") == (0, [])
    assert import_csv(ledger, text, delimiter=";", skip_known=False) == (1, [])


def test_import_missing_columns():
    with pytest.raises(LedgerError, match="from, amount"):
        import_csv(Ledger(), "date,to\n")


def test_export_round_trip(ledger):
    ledger.post(
        "2024-03-01", "split", [Posting("bank", Money(-3)), Posting("food", Money(1)), Posting("rent", Money(2))]
    )
    text = export_csv(ledger)
    assert text.splitlines()[4] == "2024-02-10,market,bank,food,90.00,a;b"
    assert len(text.splitlines()) == 5
    twin = Ledger()
    for name in ledger.accounts:
        twin.open(name)
    assert import_csv(twin, text) == (4, [])
    assert twin.balance("food") == Money(14000)


def test_export_of_one_account(ledger):
    assert len(export_csv(ledger, account="rent").splitlines()) == 2
