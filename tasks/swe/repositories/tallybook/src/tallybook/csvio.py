"""Entries from and to CSV."""

import csv
import io
from dataclasses import dataclass

from tallybook.errors import LedgerError
from tallybook.ledger import as_date
from tallybook.money import Money

COLUMNS = ("date", "text", "from", "to", "amount", "tags")


@dataclass(frozen=True)
class ImportProblem:
    """A row that could not be taken over."""

    row: int
    reason: str


def import_csv(ledger, text, *, delimiter=",", skip_known=True):
    """Make a transfer of each row.

    Args:
        ledger: Where the entries go.
        text: CSV with a header that names at least `date`, `from`, `to` and `amount`.
        delimiter: Between fields.
        skip_known: Leave out rows for which there is an entry with equal day, text and amount.

    Returns:
        The number of entries made and the problems, by row.
    """
    reader = csv.DictReader(io.StringIO(text), delimiter=delimiter)
    missing = [name for name in COLUMNS[:1] + COLUMNS[2:5] if name not in (reader.fieldnames or ())]
    if missing:
        raise LedgerError(f"missing columns: {', '.join(missing)}")
    made = 0
    problems = []
    for number, row in enumerate(reader, start=2):
        try:
            day, amount = as_date(row["date"]), Money.parse(row["amount"], ledger.currency)
            label = row.get("text") or ""
            if skip_known and _is_known(ledger, day, label, row["to"], amount):
                continue
            tags = [tag.strip() for tag in (row.get("tags") or "").split(";") if tag.strip()]
            ledger.transfer(day, label, row["from"], row["to"], amount, tags)
            made += 1
        except (LedgerError, ValueError) as error:
            problems.append(ImportProblem(number, str(error)))
    return made, problems


def export_csv(ledger, account=None):
    """Return the simple transfers of a ledger as CSV that `import_csv` reads back."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(COLUMNS)
    for entry in ledger.find(account=account):
        if len(entry.postings) != 2:
            continue
        source, target = sorted(entry.postings, key=lambda posting: posting.amount.cents)
        amount = str(target.amount).split()[0]
        tags = ";".join(sorted(entry.tags))
        writer.writerow([entry.day, entry.text, source.account, target.account, amount, tags])
    return output.getvalue()


def _is_known(ledger, day, text, target, amount):
    same_day = ledger.find(since=day, until=day)
    return any(entry.text == text and entry.amount(target) == amount for entry in same_day)
