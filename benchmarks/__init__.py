"""Comparisons with plain code and with other projects; `python -m benchmarks` says which claims hold."""
