"""An admin site: customers, invoices, staff."""
