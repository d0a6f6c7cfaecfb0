"""Budgets: how much may be spent in a month, and how much was."""

from dataclasses import dataclass

from tallybook.errors import LedgerError
from tallybook.money import Money
from tallybook.statement import monthly_totals


@dataclass(frozen=True)
class BudgetLine:
    """One account of a budget in one month."""

    account: str
    planned: Money
    carried: Money
    spent: Money

    @property
    def left(self):
        """What may still be spent; negative if too much was."""
        return self.planned + self.carried - self.spent

    @property
    def used(self):
        """Share of the available money that was spent, in percent; 0 where nothing was available."""
        available = self.planned.cents + self.carried.cents
        if available <= 0:
            return 0
        return round(100 * self.spent.cents / available)


class Budget:
    """Limits per account and month; what is left can be carried to the next month."""

    def __init__(self, ledger):
        self._ledger = ledger
        self._limits = {}

    def limit(self, account, amount, *, carry=False):
        """Set the monthly limit of an account."""
        if amount.cents < 0:
            raise LedgerError(f"limit must not be negative: {amount}")
        self._limits[account] = (amount, carry)

    def line(self, account, year, month, since=None):
        """Return an account's line for a month.

        Args:
            account: The account.
            year: The year.
            month: The month.
            since: (year, month) from which money is carried over; the month itself if not given.
        """
        if account not in self._limits:
            raise LedgerError(f"no limit for {account!r}")
        planned, carry = self._limits[account]
        totals = monthly_totals(self._ledger, account)
        zero = Money(0, self._ledger.currency)
        carried = zero
        current = since or (year, month)
        while carry and current < (year, month):
            left = planned + carried - totals.get(current, zero)
            carried = max(left, zero, key=lambda money: money.cents)
            current = _following(current)
        return BudgetLine(account, planned, carried, totals.get((year, month), zero))

    def overview(self, year, month):
        """Return the lines of all accounts, those closest to their limit first."""
        lines = [self.line(account, year, month) for account in self._limits]
        return sorted(lines, key=lambda line: (-line.used, line.account))

    def exceeded(self, year, month):
        """Return the accounts on which too much was spent, in order."""
        return sorted(line.account for line in self.overview(year, month) if line.left.cents < 0)


def _following(month):
    year, number = month
    return (year + 1, 1) if number == 12 else (year, number + 1)
