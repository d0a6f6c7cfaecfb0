"""The ordinary words that worlds are built with. No names are listed here: names are invented."""

from __future__ import annotations

from agentgym.tasks.data_files import read_data

_WORDS = read_data("search", "words")
PRESENT = 1990
"""The present year of every encyclopedia."""
OCCUPATIONS: dict[str, int] = _WORDS["occupations"]
"""Occupations with their weights."""
EARLIEST_BIRTH: dict[str, int] = _WORDS["earliest_birth"]
HOBBIES: list[str] = _WORDS["hobbies"]
BEASTS: list[str] = _WORDS["beasts"]
INDUSTRIES: list[str] = _WORDS["industries"]
LANDMARKS: list[str] = _WORDS["landmarks"]
TRADES: list[str] = _WORDS["trades"]
FLOWERS: list[str] = _WORDS["flowers"]
SPORTS: list[str] = _WORDS["sports"]
COLOURS: list[str] = _WORDS["colours"]
THEMES: list[str] = _WORDS["themes"]
FIELDS: list[str] = _WORDS["fields"]
FIELD_OF: dict[str, str] = _WORDS["field_of"]
WORK_OF: dict[str, str] = _WORDS["work_of"]
GENRES: dict[str, list[str]] = _WORDS["genres"]
TITLES: list[str] = _WORDS["titles"]
MUSEUM: list[str] = _WORDS["museum"]
