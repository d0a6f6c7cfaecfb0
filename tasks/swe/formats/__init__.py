"""Readers of other projects' software-engineering data sets. `read_any` finds out which it is.

What the data sets got wrong (ids cut at a blank, durations in ids, a progress mark as an id, patches that make the bug)
is put right on the way; what was changed is told in `meta`.
"""

from agentgym.tasks.swe.formats.reading import FORMATS, ReadResult, detect, read_any, read_row

__all__ = ["FORMATS", "ReadResult", "detect", "read_any", "read_row"]
