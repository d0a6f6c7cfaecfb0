"""Checks that an environment is isolated from its process: it changes no shared state and depends on none.

They run first, because the faults they find make many other checks fail too.
"""

from __future__ import annotations

from agentgym.check.catalog import check
from agentgym.check.outcomes import CheckFailed, CheckWarned, Finding
from agentgym.check.subject import Subject
from agentgym.check.watch import RNGS, STDOUT

_SURROUNDINGS = ("surroundings",)

_SHARED = ("task-untouched", "global-rng-untouched")

OWN_RNG = "Draw from self.np_random, which reset(seed=...) seeds."


@check("task-untouched", "no episode changes its task")
def task_untouched(subject: Subject) -> Finding:
    """An episode leaves the data and gold of its task unchanged, because other episodes use them too."""
    episodes = subject.all_episodes()
    for episode in episodes:
        if episode.task_change is not None:
            raise CheckFailed(
                f"task {episode.task.id!r}, {episode.player} player: {episode.task_change}; copy in start() what an "
                "episode changes: self.items = copy.deepcopy(task.data['items'])"
            )
    return f"{len(episodes)} episodes"


@check(
    "process-untouched",
    "it leaves environment variables, the working directory and other settings unchanged",
    jobs=_SURROUNDINGS,
)
def process_untouched(subject: Subject) -> Finding:
    """No reset and no step changes settings that the whole process shares, not even temporarily."""
    surroundings = subject.surroundings
    for what, change in surroundings.changes.items():
        if what not in (STDOUT, *RNGS):
            how = f" ({change['how']})" if change["how"] else ""
            raise CheckFailed(
                f"{change['where']}: it changed {what}{how}, which the whole process shares; keep such "
                "things on the instance, and pass them to child processes only"
            )
    return f"watched {surroundings.episodes} episodes"


@check("stdout-unused", "it prints nothing", jobs=_SURROUNDINGS)
def stdout_unused(subject: Subject) -> Finding:
    """No reset and no step writes to standard output, which servers and `--json` use."""
    surroundings = subject.surroundings
    if (change := surroundings.changes.get(STDOUT)) is not None:
        raise CheckFailed(f"{change['where']}: it wrote {change['how']} to standard output; use logging, not print")
    return f"watched {surroundings.episodes} episodes"


@check("global-rng-untouched", "it leaves random and numpy.random unchanged", jobs=_SURROUNDINGS)
def global_rng_untouched(subject: Subject) -> Finding:
    """No reset and no step draws from or seeds the global generators, however rarely."""
    surroundings = subject.surroundings
    for rng in RNGS:
        if (change := surroundings.changes.get(rng)) is not None:
            raise CheckFailed(
                f"{change['where']}: it drew from or seeded {rng}, which the whole process shares. {OWN_RNG}"
            )
    return f"watched {surroundings.episodes} episodes"


@check("clock-unused", "the date and the time of day change nothing", causes=_SHARED, jobs=_SURROUNDINGS)
def clock_unused(subject: Subject) -> Finding:
    """Tasks and recorded episodes stay the same with the clock set to other days; reading it at all is a warning."""
    surroundings = subject.surroundings
    if (change := surroundings.by_clock) is not None:
        raise CheckFailed(f"it depends on the clock: {change}. Put dates into the task's data, and count to make ids")
    if surroundings.clock:
        raise CheckWarned(
            f"it reads the clock ({', '.join(surroundings.clock[:3])}), although other days made no "
            "difference; put dates into the task's data, and measure durations with time.monotonic()"
        )
    return None


@check(
    "history-unused",
    "earlier episodes in the same process change nothing",
    causes=_SHARED,
    jobs=_SURROUNDINGS,
)
def history_unused(subject: Subject) -> Finding:
    """An episode is the same whether it is the first in a fresh process or follows many others."""
    surroundings = subject.surroundings
    if surroundings.by_history is not None:
        raise CheckFailed(
            f"it depends on what was played before: {surroundings.by_history}. Keep state on the instance and set it "
            "in start(), not on the class or module"
        )
    return f"after {surroundings.episodes} other episodes"


CHECKS = (
    task_untouched,
    process_untouched,
    stdout_unused,
    global_rng_untouched,
    clock_unused,
    history_unused,
)

ROOTS = tuple(root.name for root in CHECKS if root is not stdout_unused)
"""Checks whose failure can make episodes differ from each other."""
