from datetime import date

import pytest
from tallybook import Ledger, LedgerError, Money, Posting, UnbalancedError, UnknownAccountError


@pytest.fixture
def ledger():
    ledger = Ledger()
    for name in ("assets:bank", "assets:cash", "income:salary", "expenses:food"):
        ledger.open(name)
    ledger.transfer("2024-01-31", "Salary January", "income:salary", "assets:bank", Money(250000))
    ledger.transfer("2024-02-03", "Cash", "assets:bank", "assets:cash", Money(10000))
    ledger.transfer("2024-02-01", "Market", "assets:bank", "expenses:food", Money(4550), tags=["weekly"])
    return ledger


def test_balance(ledger):
    assert ledger.balance("assets:bank") == Money(235450)
    assert ledger.balance("expenses:food") == Money(4550)


def test_balance_of_parent(ledger):
    assert ledger.balance("assets") == Money(245450)


def test_balance_until_includes_the_day(ledger):
    assert ledger.balance("assets:bank", until="2024-02-01") == Money(245450)
    assert ledger.balance("assets:bank", until="2024-01-30") == Money(0)


def test_names_are_not_mixed_up():
    ledger = Ledger()
    ledger.open("assets:bank")
    ledger.open("assets:bankrupt")
    ledger.transfer("2024-01-01", "x", "assets:bankrupt", "assets:bank", Money(5))
    assert ledger.balance("assets:bank") == Money(5)


def test_unknown_account(ledger):
    with pytest.raises(UnknownAccountError, match="'assets:safe'"):
        ledger.balance("assets:safe")
    with pytest.raises(UnknownAccountError):
        ledger.transfer("2024-01-01", "x", "assets:safe", "assets:bank", Money(1))


def test_entries_are_in_order_of_days(ledger):
    assert [entry.text for entry in ledger.entries] == ["Salary January", "Market", "Cash"]


def test_unbalanced(ledger):
    with pytest.raises(UnbalancedError) as caught:
        ledger.post("2024-01-01", "x", [Posting("assets:bank", Money(5)), Posting("assets:cash", Money(-3))])
    assert caught.value.difference == Money(2)
    assert len(ledger.entries) == 3


def test_single_posting_is_refused(ledger):
    with pytest.raises(LedgerError, match="two postings"):
        ledger.post("2024-01-01", "x", [Posting("assets:bank", Money(0))])


@pytest.mark.parametrize("cents", [0, -5])
def test_transfer_must_be_positive(ledger, cents):
    with pytest.raises(LedgerError):
        ledger.transfer("2024-01-01", "x", "assets:bank", "assets:cash", Money(cents))


@pytest.mark.parametrize("name", ["", ":a", "a:", "a::b"])
def test_names_of_accounts(name):
    with pytest.raises(LedgerError):
        Ledger().open(name)


def test_close(ledger):
    with pytest.raises(LedgerError, match="balance is 100.00 EUR"):
        ledger.close("assets:cash", "2024-03-01")
    ledger.transfer("2024-02-10", "back", "assets:cash", "assets:bank", Money(10000))
    ledger.close("assets:cash", "2024-03-01")
    ledger.transfer("2024-02-29", "still", "assets:cash", "assets:bank", Money(1))
    with pytest.raises(LedgerError, match="closed"):
        ledger.transfer("2024-03-01", "late", "assets:cash", "assets:bank", Money(1))


def test_reverse(ledger):
    entry = ledger.reverse(3, "2024-02-05")
    assert entry.text == "reversal of 3: Market"
    assert entry.tags == {"weekly"}
    assert ledger.balance("expenses:food") == Money(0)
    with pytest.raises(LedgerError):
        ledger.reverse(9, "2024-02-05")


def test_find(ledger):
    assert [entry.number for entry in ledger.find(text="MARKET")] == [3]
    assert [entry.number for entry in ledger.find(account="assets:cash")] == [2]
    assert [entry.number for entry in ledger.find(tag="weekly")] == [3]
    assert [entry.number for entry in ledger.find(since="2024-02-01", until="2024-02-03")] == [3, 2]
    assert ledger.find(text="market", account="income") == []


def test_overdraft():
    ledger = Ledger(overdraft=False)
    ledger.open("assets:bank")
    ledger.open("equity")
    ledger.transfer("2024-01-01", "start", "equity", "assets:bank", Money(100))
    ledger.transfer("2024-01-02", "all", "assets:bank", "equity", Money(100))
    with pytest.raises(LedgerError, match="not enough"):
        ledger.transfer("2024-01-03", "more", "assets:bank", "equity", Money(1))


def test_dates_may_be_dates(ledger):
    entry = ledger.transfer(date(2024, 5, 1), "x", "assets:bank", "assets:cash", Money(1))
    assert entry.day == date(2024, 5, 1)
    assert ledger.accounts == ["assets:bank", "assets:cash", "expenses:food", "income:salary"]
