"""Comparisons with plain code and with other projects; `python -m benchmarks` reports which claims hold."""
