"""Accounts, entries and balances."""

from dataclasses import dataclass, field
from datetime import date

from tallybook.errors import LedgerError, UnbalancedError, UnknownAccountError
from tallybook.money import Money


def as_date(value):
    """Return a date from a date or text such as `2024-01-31`."""
    return value if isinstance(value, date) else date.fromisoformat(value)


@dataclass(frozen=True)
class Posting:
    """A change of one account."""

    account: str
    amount: Money


@dataclass(frozen=True)
class Entry:
    """Postings that belong together and add up to zero."""

    number: int
    day: date
    text: str
    postings: tuple
    tags: frozenset = field(default_factory=frozenset)

    def amount(self, account):
        """Return what the entry changes in an account and those below it."""
        cents = sum(posting.amount.cents for posting in self.postings if is_below(posting.account, account))
        return Money(cents, self.postings[0].amount.currency)


def is_below(account, parent):
    """Whether an account is `parent` or one of its sub-accounts."""
    return account == parent or account.startswith(f"{parent}:")


class Ledger:
    """A book of one currency.

    Args:
        currency: Of all amounts.
        overdraft: Whether accounts below `assets` may become negative.
    """

    def __init__(self, currency="EUR", *, overdraft=True):
        self.currency = currency
        self.overdraft = overdraft
        self._accounts = {}
        self._entries = []

    def open(self, name):
        """Open an account; nothing happens if it is open."""
        if not name or name != name.strip(":") or "::" in name:
            raise LedgerError(f"not a name for an account: {name!r}")
        self._accounts.setdefault(name, None)

    def close(self, name, day):
        """Close an account from a day on. Raises `LedgerError` if there is money left."""
        self._known(name)
        if self.balance(name):
            raise LedgerError(f"cannot close {name!r}: balance is {self.balance(name)}")
        self._accounts[name] = as_date(day)

    @property
    def accounts(self):
        """Names of all accounts, in order."""
        return sorted(self._accounts)

    @property
    def entries(self):
        """All entries by day; those of one day as they were made."""
        return sorted(self._entries, key=lambda entry: (entry.day, entry.number))

    def post(self, day, text, postings, tags=()):
        """Make an entry. Raises `UnbalancedError`, `UnknownAccountError` or `LedgerError`."""
        day = as_date(day)
        if len(postings) < 2:
            raise LedgerError("an entry needs two postings or more")
        total = Money(0, self.currency)
        for posting in postings:
            self._check_open(posting.account, day)
            total += posting.amount
        if total:
            raise UnbalancedError(total)
        entry = Entry(len(self._entries) + 1, day, text, tuple(postings), frozenset(tags))
        self._check_cover(entry)
        self._entries.append(entry)
        return entry

    def transfer(self, day, text, source, target, amount, tags=()):
        """Move an amount from one account to another."""
        if amount.cents <= 0:
            raise LedgerError(f"amount must be positive, not {amount}")
        return self.post(day, text, [Posting(source, -amount), Posting(target, amount)], tags)

    def reverse(self, number, day):
        """Make the opposite of an entry."""
        original = self._entry(number)
        postings = [Posting(posting.account, -posting.amount) for posting in original.postings]
        return self.post(day, f"reversal of {number}: {original.text}", postings, original.tags)

    def balance(self, account, until=None):
        """Return the balance of an account and those below it, up to and with a day."""
        if not any(is_below(name, account) for name in self._accounts):
            raise UnknownAccountError(account)
        end = as_date(until) if until is not None else date.max
        cents = sum(entry.amount(account).cents for entry in self._entries if entry.day <= end)
        return Money(cents, self.currency)

    def find(self, *, text="", account=None, tag=None, since=None, until=None):
        """Return entries for which all that is given holds."""
        first = as_date(since) if since is not None else date.min
        last = as_date(until) if until is not None else date.max
        return [
            entry
            for entry in self.entries
            if text.lower() in entry.text.lower()
            and (account is None or any(is_below(posting.account, account) for posting in entry.postings))
            and (tag is None or tag in entry.tags)
            and first <= entry.day <= last
        ]

    def _entry(self, number):
        if not 1 <= number <= len(self._entries):
            raise LedgerError(f"no entry {number}")
        return self._entries[number - 1]

    def _known(self, name):
        if name not in self._accounts:
            raise UnknownAccountError(name)

    def _check_open(self, name, day):
        self._known(name)
        closed = self._accounts[name]
        if closed is not None and day >= closed:
            raise LedgerError(f"account {name!r} is closed since {closed}")

    def _check_cover(self, entry):
        if self.overdraft:
            return
        for name in {posting.account for posting in entry.postings}:
            if is_below(name, "assets") and self.balance(name).cents + entry.amount(name).cents < 0:
                raise LedgerError(f"not enough in {name!r}: {self.balance(name)}")
