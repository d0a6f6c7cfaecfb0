"""Amounts of money in whole cents."""

import re
from dataclasses import dataclass

from tallybook.errors import MoneyError

_AMOUNT = re.compile(r"([+-]?)(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d{1,2}))?(?:\s*([A-Z]{3}))?")


@dataclass(frozen=True)
class Money:
    """An amount in one currency."""

    cents: int
    currency: str = "EUR"

    @classmethod
    def parse(cls, text, currency="EUR"):
        """Read an amount such as `-1,250.5` or `12 USD`. Raises `MoneyError`."""
        found = _AMOUNT.fullmatch(text.strip())
        if found is None:
            raise MoneyError(f"not an amount: {text!r}")
        sign, whole, part, own = found.groups()
        cents = int(whole.replace(",", "")) * 100 + int((part or "").ljust(2, "0"))
        return cls(-cents if sign == "-" else cents, own or currency)

    def _same(self, other):
        if not isinstance(other, Money):
            raise TypeError(f"not money: {other!r}")
        if other.currency != self.currency:
            raise MoneyError(f"{self.currency} and {other.currency} do not go together")
        return other.cents

    def __add__(self, other):
        return Money(self.cents + self._same(other), self.currency)

    def __sub__(self, other):
        return Money(self.cents - self._same(other), self.currency)

    def __neg__(self):
        return Money(-self.cents, self.currency)

    def __lt__(self, other):
        return self.cents < self._same(other)

    def __le__(self, other):
        return self.cents <= self._same(other)

    def __bool__(self):
        return self.cents != 0

    def share(self, *weights):
        """Split the amount by weights so that the parts add up to it; first parts get what is left over."""
        total = sum(weights)
        if not weights or total <= 0 or min(weights) < 0:
            raise MoneyError(f"cannot share by {weights!r}")
        parts = [abs(self.cents) * weight // total for weight in weights]
        left = abs(self.cents) - sum(parts)
        for index, weight in enumerate(weights):
            if left and weight:
                parts[index] += 1
                left -= 1
        sign = -1 if self.cents < 0 else 1
        return [Money(sign * part, self.currency) for part in parts]

    def percent(self, rate):
        """Return a share in percent, half cents rounded away from zero."""
        hundredths = abs(self.cents) * round(abs(rate) * 100)
        cents = (hundredths + 5000) // 10000
        return Money(cents if (self.cents < 0) == (rate < 0) else -cents, self.currency)

    def __str__(self):
        whole, part = divmod(abs(self.cents), 100)
        sign = "-" if self.cents < 0 else ""
        return f"{sign}{whole:,}.{part:02d} {self.currency}"
