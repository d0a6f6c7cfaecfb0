"""`EpisodeShell`: an episode as the shell of mini-swe-agent.

from minisweagent.agents.default import DefaultAgent

shell = EpisodeShell(RecordedEpisode(make("swe", dialect="native"), env_id="swe"), run="run", submit="submit")
task = shell.begin(seed=0)
DefaultAgent(model, shell, **config).run(task)
shell.end()
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from agentgym.core.messages import text_of
from agentgym.interop.episodes import CalledEpisode
from agentgym.interop.packages import require_package

DONE = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""The agent echoes this when it has finished."""


class EpisodeShell:
    """The environment of a mini-swe-agent: its commands are calls of one tool of an episode.

    The model reads its mistakes. An `InfrastructureError` propagates through the agent, and the episode has failed.

    Args:
        episode: The episode, e.g. a `RecordedEpisode`.
        run: The tool that runs a shell `command`.
        submit: The tool that submits the work, called without arguments when the agent is done; by default the episode
            ends and is graded as it is.
    """

    def __init__(self, episode: CalledEpisode, *, run: str = "run", submit: str | None = None):
        require_package("minisweagent")
        self.episode, self._run, self._submit = episode, run, submit
        self.config: Mapping[str, Any] = {"run": run, "submit": submit}

    def begin(self, **options: Any) -> str:
        """Begin the episode and return its task as text. Takes the arguments of `Env.reset`."""
        opening = self.episode.begin(**options)
        return "\n\n".join(map(text_of, opening))

    def execute(self, action: Mapping[str, Any], cwd: str = "", **_: Any) -> dict[str, Any]:
        """Run a command and return its output. Called by the agent."""
        command = str(action.get("command", ""))
        if _is_done(command):
            self.end()
            raise _submitted()
        output = "\n".join(map(text_of, self.episode.call(self._run, {"command": command})))
        if self.episode.is_over:
            raise _submitted()
        return {"output": output, "returncode": int(output.startswith("Error: ")), "exception_info": ""}

    def end(self) -> float:
        """Submit the work unless that has already happened, and return the reward."""
        if not self.episode.is_over and self._submit is not None:
            self.episode.call(self._submit, {})
        return self.episode.end()

    def get_template_vars(self, **more: Any) -> dict[str, Any]:
        """Return the variables of the agent's templates."""
        return {**platform.uname()._asdict(), **self.config, **more}

    def serialize(self) -> dict[str, Any]:
        """Return the environment's entry in the agent's own records."""
        return {"info": {"config": {"environment": dict(self.config), "environment_type": "agentgym"}}}


def _is_done(command: str) -> bool:
    return command.strip().removeprefix("echo").strip(" \"'") == DONE


def _submitted() -> Exception:
    """Return the exception that ends the agent's run."""
    from minisweagent.exceptions import Submitted  # pyright: ignore[reportMissingImports]

    return Submitted({"role": "exit", "content": "", "extra": {"exit_status": "Submitted", "submission": ""}})
