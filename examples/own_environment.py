"""An environment in one file: tasks, two tools, a reward, and a solution that proves the tasks solvable.

`python examples/own_environment.py` checks its guarantees, as `agentgym check` does, and plays the solution once.
"""

from random import Random

from agentgym import Env, GeneratedTasks, Reason, Task, ToolCall, tool
from agentgym.check import print_report, run_checks
from agentgym.policy import ScriptedPolicy
from agentgym.rollout import EnvFactory, Group, RolloutEngine


def make_task(split: str, index: int) -> Task:
    n = 40 + 2 * index + (split == "test")  # even in one split, odd in the other: they share no problem
    prompt = f"Of the coins 1 to {n}, one is heavier than the others. Find it."
    return Task(f"coins/{split}/{index}", split, prompt, data={"coins": n}, gold={"heavy": Random(n).randint(1, n)})


class CoinsEnv(Env):
    """Find the heavy coin with a pair of scales."""

    @classmethod
    def default_tasks(cls) -> GeneratedTasks:
        return GeneratedTasks("coins", make_task, {"train": None, "test": None})

    @tool
    def weigh(self, last: int) -> str:
        """Find out whether the heavy coin is among the coins from 1 to `last`.

        Args:
            last: The last coin on the scales.
        """
        return "It is among them." if self.task.gold["heavy"] <= last else "It is another one."

    @tool
    def answer(self, coin: int) -> str:
        """Name the heavy coin. This ends the episode.

        Args:
            coin: The number of the coin.
        """
        self.reward("outcome", float(coin == self.task.gold["heavy"]))
        self.finish(Reason.ANSWERED)
        return "Thank you."

    def solution(self, task: Task):
        low, high = 1, task.data["coins"]
        while low < high:
            middle = (low + high) // 2
            observation = yield ToolCall("weigh", {"last": middle})
            low, high = (low, middle) if "among" in observation[-1]["content"] else (middle + 1, high)
        yield ToolCall("answer", {"coin": low})


if __name__ == "__main__":
    print_report(run_checks("own_environment:CoinsEnv"), failures_only=True)
    with RolloutEngine(EnvFactory("own_environment:CoinsEnv", {}), ScriptedPolicy()) as engine:
        [played] = engine.collect([Group(CoinsEnv.default_tasks().get("test", 0), seed=0)])
    print(*(message["content"] for message in played.trajectories[0].messages), sep="\n")
