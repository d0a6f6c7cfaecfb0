"""A double-entry ledger."""

from tallybook.budget import Budget, BudgetLine
from tallybook.csvio import ImportProblem, export_csv, import_csv
from tallybook.errors import LedgerError, MoneyError, UnbalancedError, UnknownAccountError
from tallybook.ledger import Entry, Ledger, Posting
from tallybook.money import Money
from tallybook.statement import Statement, monthly_totals, statement

__all__ = [
    "Budget",
    "BudgetLine",
    "Entry",
    "ImportProblem",
    "Ledger",
    "LedgerError",
    "Money",
    "MoneyError",
    "Posting",
    "Statement",
    "UnbalancedError",
    "UnknownAccountError",
    "export_csv",
    "import_csv",
    "monthly_totals",
    "statement",
]
__version__ = "0.7.0"
