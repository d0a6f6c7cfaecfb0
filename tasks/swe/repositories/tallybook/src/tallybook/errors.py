"""Errors of this package."""


class LedgerError(Exception):
    """Base of all errors of this package."""


class MoneyError(LedgerError, ValueError):
    """Text that is no amount, or amounts that do not go together."""


class UnbalancedError(LedgerError):
    """Postings that do not add up to zero."""

    def __init__(self, difference):
        super().__init__(f"postings are off by {difference}")
        self.difference = difference


class UnknownAccountError(LedgerError, KeyError):
    """An account that was never opened."""

    def __str__(self):
        return f"unknown account {self.args[0]!r}"
