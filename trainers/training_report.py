"""The report of a finished run: summary, samples and learning curve."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from agentgym.core.display import print_trajectory
from agentgym.core.foreign import describe
from agentgym.core.trajectory import read_jsonl, write_jsonl
from agentgym.eval.evaluation import Summary
from agentgym.eval.summary import print_errors
from agentgym.rollout.fitness import why_barren
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.logbook.card import write_card
from agentgym.trainers.logbook.curve import draw_curve
from agentgym.trainers.logbook.records import read_metrics
from agentgym.trainers.logbook.verdict import verdict_on
from agentgym.trainers.run_folder import SUMMARY


@dataclass(frozen=True)
class TrainResult:
    """The results of a run on held-out tasks."""

    before: Summary
    after: Summary
    folder: Path
    minutes: float


def report(config: TrainConfig, result: TrainResult, console: Console) -> None:
    """Write the report and print a summary."""
    folder, before, after = result.folder, result.before, result.after
    lines = list(read_metrics(folder / "metrics.jsonl"))
    played = list(read_jsonl(folder / "eval-after.jsonl"))
    verdict = verdict_on(config, read_jsonl(folder / "eval-before.jsonl"), played, after, lines)
    results = {"before": before.to_dict(), "after": after.to_dict()}
    summary = {**results, "verdict": asdict(verdict), "minutes": result.minutes}
    (folder / SUMMARY).write_text(json.dumps(summary, indent=1), encoding="utf-8")
    write_card(folder / "model", config, config.steps, {"before training": before, "after training": after})
    finished = [t for t in played if not t.failed]
    samples = [*[t for t in finished if t.success][:2], *[t for t in finished if not t.success][:1]]
    write_jsonl(folder / "samples.jsonl", samples)
    for trajectory in samples:
        print_trajectory(trajectory, console)
    console.print(f"held-out success before {_rate(before)}, after {_rate(after)}; {result.minutes:.1f} minutes")
    for when, evaluation in (("before", before), ("after", after)):
        if evaluation.failed:
            console.print(f"[bold yellow]{evaluation.failed} episode(s) {when} training failed[/] and do not count:")
            print_errors(evaluation, console)
        if (why := why_barren(evaluation.sampled_tokens, evaluation.format_error_rate)) is not None:
            console.print(f"[bold red]The evaluation {when} training says nothing about the model:[/] {why}.")
    console.print(verdict.text, markup=False, highlight=False, soft_wrap=True)
    curve = _draw(config, result, lines, console)
    console.print(f"{curve}metrics: {folder / 'metrics.jsonl'}   model: {folder / 'model'}")


def _draw(config: TrainConfig, result: TrainResult, lines: list[dict[str, Any]], console: Console) -> str:
    """Draw the learning curve and return where it is. If the plot fails, the run keeps its results."""
    path, held_out = result.folder / "curve.png", (result.before.overall, result.after.overall)
    title = f"{config.env}, {config.model}, credit: {config.credit.value}"
    try:
        draw_curve(path, {title: lines}, {title: held_out}, title)
    except Exception as error:
        console.print(f"[yellow]Could not draw the curve[/] ({describe(error)}); all other results are written.")
        return ""
    return f"curve: {path}   "


def _rate(summary: Summary) -> str:
    if summary.success is None or summary.interval is None:
        return "unknown (no episode reached its end)"
    return f"{summary.success:.1%} ({summary.interval.low:.1%} to {summary.interval.high:.1%})"
