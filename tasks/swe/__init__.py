"""Software-engineering tasks: repositories with a fault, the tests that show it, readers for public data sets."""
