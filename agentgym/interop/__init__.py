"""Environments beyond this process: served to other programs, and other trainers' interfaces to them.

Each module needs at most one extra, and is imported only by those who use it.
"""
