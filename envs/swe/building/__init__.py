"""Builds SWE tasks from packages: injects a bug, runs the tests, and keeps the bugs that they find."""
