"""The live web as an index: search, fetch, extract."""
