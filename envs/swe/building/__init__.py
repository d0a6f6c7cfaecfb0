"""Building SWE tasks from packages: inject a bug, run the tests, keep what they find."""
