"""Software-engineering tasks: repositories with a bug, the tests that expose it, readers for public data sets."""
