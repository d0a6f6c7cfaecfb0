"""`agentgym cards`: print the cards of environments, or write them to a folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from agentgym.base.choices import count_of
from agentgym.base.console import console as terminal
from agentgym.base.output_files import check_folder
from agentgym.check.cards import CardSubject, card, overview, read_speeds, subjects

OVERVIEW = "README.md"


def print_cards(names: Sequence[str], played: int, speeds: Path | None) -> None:
    """Print the cards of these environments, or of all."""
    for _, text in _cards(subjects(names), played, speeds):
        typer.echo(text)


def write_cards(names: Sequence[str], out: Path, played: int, speeds: Path | None) -> None:
    """Write the cards to a folder, and the overview, unless only some environments are named."""
    check_folder(out)
    selected = subjects(names)
    for subject, text in _cards(selected, played, speeds):
        (out / f"{subject.name}.md").write_text(text, encoding="utf-8")
    if not names:
        (out / OVERVIEW).write_text(overview(selected, read_speeds(speeds) if speeds else {}), encoding="utf-8")
    typer.echo(f"Wrote {count_of(len(selected), 'card')} to {out}")


def _cards(selected: Sequence[CardSubject], played: int, speeds: Path | None) -> Iterator[tuple[CardSubject, str]]:
    speed_by_name = read_speeds(speeds) if speeds else {}
    with terminal(stderr=True).status("Playing …") as status:
        for subject in selected:
            status.update(f"Playing {subject.name} …")
            yield subject, card(subject, played=played, speed=speed_by_name.get(subject.name))
