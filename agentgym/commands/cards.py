"""`agentgym cards`: print the cards of environments, or write them to a folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from agentgym.cards import Subject, card, overview, read_speeds, subjects
from agentgym.counts import count_of
from agentgym.outputs import check_folder
from agentgym.terminal.printing import console as terminal

OVERVIEW = "README.md"


def print_cards(names: Sequence[str], played: int, speeds: Path | None) -> None:
    """Print the cards of these environments, or of all."""
    for _, text in _cards(subjects(names), played, speeds):
        typer.echo(text)


def write_cards(names: Sequence[str], out: Path, played: int, speeds: Path | None) -> None:
    """Write the cards to a folder, and the overview, unless only some environments are named."""
    check_folder(out)
    chosen = subjects(names)
    for subject, text in _cards(chosen, played, speeds):
        (out / f"{subject.name}.md").write_text(text, encoding="utf-8")
    if not names:
        (out / OVERVIEW).write_text(overview(chosen, read_speeds(speeds) if speeds else {}), encoding="utf-8")
    typer.echo(f"Wrote {count_of(len(chosen), 'card')} to {out}")


def _cards(chosen: Sequence[Subject], played: int, speeds: Path | None) -> Iterator[tuple[Subject, str]]:
    known = read_speeds(speeds) if speeds else {}
    with terminal(stderr=True).status("Playing …") as status:
        for subject in chosen:
            status.update(f"Playing {subject.name} …")
            yield subject, card(subject, played=played, speed=known.get(subject.name))
