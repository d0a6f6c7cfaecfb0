"""The content of a form: values read by name and checked, with the errors shown next to the fields."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

_LINE_ENDS = re.compile(r"\r\n?")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_EMAIL = re.compile(r"[^@\s,;<>]+@[^@\s,;<>]+\.[^@\s,;<>.]+")


def clean(text: str) -> str:
    """Return text as it is stored: lines end in `\\n`, without control characters or surrounding space."""
    return _CONTROLS.sub("", _LINE_ENDS.sub("\n", text)).strip()


class SiteForm:
    """The fields of one form. Reading an invalid one records an error under its name and continues.

    `values` holds the values sent, to fill in the form again; `errors` maps field names to messages.
    """

    def __init__(self, sent: Mapping[str, Sequence[str]] | None = None):
        self._sent = {key: [clean(value) for value in values] for key, values in (sent or {}).items()}
        self.values: dict[str, str] = {key: values[-1] for key, values in self._sent.items() if values}
        self.errors: dict[str, str] = {}

    @classmethod
    def filled(cls, values: Mapping[str, object]) -> SiteForm:
        """Return a form that shows these initial values."""
        return cls({key: ["" if value is None else str(value)] for key, value in values.items()})

    @property
    def ok(self) -> bool:
        """Whether everything read so far is valid."""
        return not self.errors

    def error(self, name: str, message: str) -> None:
        """Record an error of a field; the first error of a field stays."""
        self.errors.setdefault(name, message)

    def text(self, name: str, required: bool = True, most: int = 200) -> str:
        """Read text of one or more lines."""
        value = self.values.get(name, "")
        if required and not value:
            self.error(name, "Please fill in this field.")
        if len(value) > most:
            self.error(name, f"Please use at most {most} characters.")
        return value

    def email(self, name: str, required: bool = True) -> str:
        """Read one e-mail address."""
        value = self.text(name, required)
        if value and not _EMAIL.fullmatch(value):
            self.error(name, "Please enter an e-mail address, such as name@example.test.")
        return value

    def choice(self, name: str, valid: Collection[str], required: bool = True) -> str:
        """Read one of several values; "" for any other value."""
        value = self.values.get(name, "")
        if value in valid:
            return value
        if value or required:
            self.error(name, "Please choose one of the options.")
        return ""

    def choices(self, name: str, valid: Collection[str]) -> list[str]:
        """Read several values (check boxes, a multiple select), without duplicates, in the order of `valid`."""
        sent = self._sent.get(name, [])
        if any(value not in valid for value in sent):
            self.error(name, "Please choose among the options.")
        return [value for value in valid if value in sent]

    def flag(self, name: str) -> bool:
        """Read a check box."""
        return name in self._sent

    def integer(self, name: str, least: int, most: int, default: int | None = None) -> int:
        """Read a whole number between two limits."""
        value = self.values.get(name, "")
        if not value and default is not None:
            return default
        if re.fullmatch(r"-?[0-9]{1,9}", value) and least <= int(value) <= most:
            return int(value)
        self.error(name, f"Please enter a whole number from {least} to {most}.")
        return least

    def cents(self, name: str, most: int = 10_000_000) -> int:
        """Read an amount of money such as `12.50`, in cents."""
        value = self.values.get(name, "").lstrip("$€ ")
        if re.fullmatch(r"[0-9]{1,7}(\.[0-9]{1,2})?", value):
            whole, _, part = value.partition(".")
            amount = int(whole) * 100 + int((part + "00")[:2])
            if amount <= most:
                return amount
        self.error(name, "Please enter an amount, such as 12.50.")
        return 0

    def date(self, name: str, required: bool = True) -> str:
        """Read a date written as year-month-day."""
        return self._moment(name, "%Y-%m-%d", "Please enter a date as YYYY-MM-DD.", required)

    def time(self, name: str, required: bool = True) -> str:
        """Read a time written as hours:minutes."""
        return self._moment(name, "%H:%M", "Please enter a time as HH:MM.", required)

    def _moment(self, name: str, pattern: str, message: str, required: bool) -> str:
        value = self.text(name, required)
        try:
            return datetime.strptime(value, pattern).strftime(pattern) if value else ""
        except ValueError:
            self.error(name, message)
            return ""
