"""Readers of other projects' software-engineering data sets. `read_any` detects the format.

Errors of the data sets (ids cut at a blank, durations in ids, a progress mark as an id, patches that make the bug) are
corrected; `meta` lists the corrections.
"""

from agentgym.tasks.swe.formats.reading import FORMATS, ReadResult, detect, read_any, read_row

__all__ = ["FORMATS", "ReadResult", "detect", "read_any", "read_row"]
