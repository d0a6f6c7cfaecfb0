"""Statements of accounts."""

from dataclasses import dataclass

from tallybook.ledger import as_date
from tallybook.money import Money


@dataclass(frozen=True)
class Statement:
    """What happened to an account in a period."""

    account: str
    opening: Money
    closing: Money
    lines: tuple
    """(day, text, amount, balance after it) of each entry."""

    @property
    def change(self):
        """Difference between closing and opening balance."""
        return self.closing - self.opening

    def render(self, width=24):
        """Return the statement as text, with columns in line."""
        rows = [f"{self.account}", f"{'opening':<{width + 11}}{self.opening!s:>16}"]
        for day, text, amount, balance in self.lines:
            short = text if len(text) <= width else text[: width - 1] + "…"
            rows.append(f"{day} {short:<{width}}{amount!s:>16}{balance!s:>16}")
        rows.append(f"{'closing':<{width + 11}}{self.closing!s:>16}")
        return "\n".join(rows)


def statement(ledger, account, since, until):
    """Return the statement of an account for a period, both days included."""
    first, last = as_date(since), as_date(until)
    if last < first:
        raise ValueError(f"period ends before it begins: {first} to {last}")
    balance = Money(0, ledger.currency)
    lines = []
    opening = balance
    for entry in ledger.entries:
        amount = entry.amount(account)
        if entry.day > last:
            break
        balance += amount
        if entry.day < first:
            opening = balance
        elif amount:
            lines.append((entry.day, entry.text, amount, balance))
    return Statement(account, opening, balance, tuple(lines))


def monthly_totals(ledger, account):
    """Return the sum of changes of an account by (year, month), months without changes left out."""
    totals = {}
    for entry in ledger.entries:
        amount = entry.amount(account)
        if amount:
            month = (entry.day.year, entry.day.month)
            totals[month] = totals.get(month, Money(0, ledger.currency)) + amount
    return totals
