"""`agentgym play`: a person plays an environment in the terminal, with the same tools, turns and rewards as a model.

A typing mistake (unknown tool, wrong arguments) is explained and costs no turn. `:say` sends text unchanged, to show
the reply that a model would get.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from agentgym.base.choices import count_of
from agentgym.base.errors import AgentGymError
from agentgym.core.display import plain, print_message, rewards_text
from agentgym.core.endings import Reason
from agentgym.core.engine.steps import StepResult, reset_options
from agentgym.core.env import Env
from agentgym.core.messages import Message, text_of
from agentgym.core.policy import Script, as_action
from agentgym.eval.human import PROMPT, Prompter, Quit, as_typed


@dataclass
class _Score:
    """Rewards of the episode so far."""

    turns: list[dict[str, float]] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)

    def add(self, result: StepResult) -> None:
        self.turns.append(result.info["rewards"])
        self.rewards.append(result.reward)


class PlaySession:
    """One episode played by a person.

    Args:
        make: Makes the environment; a second one is made to show the solution.
        seed: Chooses the task, unless `options` names one.
        options: `task`, or `split` and `index`, as for `Env.reset`.
        console: The console to print to.
        read: Returns the next line, given a prompt; raises `EOFError` at the end.
    """

    def __init__(
        self,
        make: Callable[[], Env],
        *,
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
        console: Console | None = None,
        read: Callable[[str], str] = input,
    ):
        self._make, self._seed, self._options = make, seed, dict(options or {})
        self._console = console or Console()
        self._read = read
        self._score = _Score()
        self._played = 0

    def play(self) -> bool:
        """Play to the end; return whether the task was solved."""
        self._env = self._make()
        try:
            opening, _ = self._env.reset(seed=self._seed, options=self._options)
            return self._turns(self._welcomed(opening))
        finally:
            self._env.close()

    def _welcomed(self, opening: list[Message]) -> Prompter:
        """Show the task and return the prompter for the turns."""
        env = self._env
        prompter = Prompter(
            env.tools,
            env.dialect,
            self._console,
            self._read,
            talks=type(env).respond is not Env.respond,
            commands={":solution": ("show the environment's own solution", self._show_solution)},
            leaving="give up (so does Ctrl-D)",
        )
        title = Text.assemble((plain(env.task.id, 100), "bold"), f"  difficulty {env.task.difficulty}")
        prompter.welcome(opening, title, count_of(env.max_turns, "turn"))
        return prompter

    def _turns(self, prompter: Prompter) -> bool:
        try:
            while True:
                action = prompter.action()
                result = self._env.step(action)
                self._score.add(result)
                self._played += 1
                for message in result.observation:
                    print_message(message, self._console, max_chars=None)
                self._console.print(self._standing(result))
                if result.terminated or result.truncated:
                    break
        except (Quit, EOFError, KeyboardInterrupt):
            self._console.print()
            result = self._env.interrupt(Reason.GAVE_UP)
            self._score.add(result)
        self._farewell(result)
        return bool(result.info["is_success"])

    def _show_solution(self) -> None:
        """Play the reference solution in a separate environment."""
        env = self._make()
        try:
            env.reset(seed=self._seed, options=reset_options(self._env.task, self._env.training_step))
            script, observation = Script(env.solution(env.task)), []
            while env.reason is None and (move := script.next_move(observation)) is not None:
                self._console.print(Text(f"{PROMPT}{as_typed(move, env.tools)}", style="bold green"))
                observation = env.step(as_action(env, move)).observation
                text = "\n".join(text_of(message) for message in observation)
                self._console.print(Text(plain(text), style="dim"))
        except AgentGymError as error:
            self._console.print(Text(plain(str(error)), style="red"))
        finally:
            env.close()

    def _standing(self, result: StepResult) -> Text:
        turn = Text(f"turn {self._played} of {self._env.max_turns}  ", style="dim")
        return turn + rewards_text(result.info["rewards"], result.reward)

    def _farewell(self, result: StepResult) -> None:
        solved = bool(result.info["is_success"])
        title = Text("Solved" if solved else "Not solved", style="bold green" if solved else "bold red")
        table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
        table.add_column("channel")
        table.add_column("total", justify="right")
        table.add_column("weight", justify="right")
        table.add_column("")
        weights = self._env.scheme.weights
        for name, channel in self._env.channels.items():
            total = sum(turn.get(name, 0.0) for turn in self._score.turns)
            weight = f"{weights[name]:g}" if name in weights else "–"
            table.add_row(name, f"{total:.4g}", weight, Text(channel.description, style="dim"))
        table.add_section()
        turns = count_of(self._played, "turn")
        ending = f"{result.info['ending']} after {turns}".replace("_", " ")
        table.add_row("reward", f"{sum(self._score.rewards):.4g}", "", Text(ending, style="dim"), style="bold")
        self._console.print(Panel(table, title=title, title_align="left", expand=False, padding=(1, 2)))
