"""Environments of other projects as ours."""
