"""The reward tiers of the SWE environment."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentgym.core.rewards import OUTCOME, Scheme, lint
from agentgym.envs.swe import Tier, g_ra
from agentgym.envs.swe.options import CHANNELS, aimed
from agentgym.tools.patches import diff_trees, localisation
from tests.rows import each_row


@each_row("opens_at", list(Tier))
@each_row("strict", [True, False])
def test_every_gate_is_sound(opens_at: Tier, strict: bool):
    assert lint(g_ra(opens_at=opens_at, strict=strict), CHANNELS, max_turns=30) == []


def test_tiers_pay_their_weights():
    scheme = g_ra(no_submit=-1.0, empty=-0.5, fails=0.1, passes=1.5, low={"tests_run": 0.05})
    nothing, empty = {"unsubmitted": 1.0}, {"tier": 1.0, "empty": 1.0, "submitted": 1.0, "tests_run": 1.0}
    elsewhere = {"tier": 2.0, "submitted": 1.0, "patched": 1.0, "tests_run": 1.0}
    near = elsewhere | {"localised": 0.5}
    solved = near | {"tier": 3.0, "outcome": 1.0}
    paid = [scheme.total([turn]) for turn in (nothing, empty, elsewhere, near, solved)]
    assert paid == pytest.approx([-1.0, -0.5, 0.0, 0.15, 1.55])


def test_default_scheme_pays_the_outcome_and_smaller_channels():
    scheme = g_ra()
    call = {"format": 1.0, "executed": 1.0}
    end = {"tier": 2.0, "submitted": 1.0, "patched": 1.0, "tests_run": 1.0, **call}
    near = end | {"localised": 0.5}
    half = near | {"mended": 0.5, "similarity": 1.0}
    solved = near | {"tier": 3.0, "outcome": 1.0, "mended": 1.0, "localised": 1.0, "similarity": 1.0}
    paid = [scheme.total([call, turn]) for turn in ({"unsubmitted": 1.0}, end, near, half, solved)]
    small = 0.05 + 0.05  # half an overlap with the gold patch, and tests that were run
    assert paid == pytest.approx(
        [0.0, 0.0, 0.15 + small, 0.15 + small + 0.1 + 0.05, 1.15 + 0.05 + 0.1 + 0.2 + 0.05 + 0.1]
    )


def test_strict_gate_opens_only_above_its_tier():
    near = {"tier": 2.0, "patched": 1.0, "localised": 1.0}
    solved = near | {"tier": 3.0, "outcome": 1.0}
    at, above = (g_ra(opens_at=Tier.FAILS, strict=strict, similarity=0.0) for strict in (False, True))
    assert (at.total([near]), above.total([near])) == pytest.approx((0.25, 0.15))
    assert at.total([solved]) == above.total([solved]) == pytest.approx(1.3)


def test_similarity_is_paid_only_with_a_weight_and_a_fixed_test():
    near = {"tier": 2.0, "patched": 1.0, "localised": 1.0, "similarity": 1.0}
    for weight in (0.0, 0.1):
        scheme = g_ra(similarity=weight, low={})
        assert scheme.total([near]) == pytest.approx(0.15)
        assert scheme.total([near | {"mended": 0.5}]) == pytest.approx(0.15 + weight)
        assert ("similarity" in scheme.weights) is (weight > 0)


def test_a_change_of_everything_is_paid_less_than_an_honest_failure():
    """A comment after every line of every file reads nothing; a wrong change near the fault found the place."""
    files = {f"m{number}.py": b"".join(b"x = %d\n" % line for line in range(60)) for number in range(5)}
    gold = diff_trees(files, files | {"m0.py": files["m0.py"].replace(b"x = 30\n", b"x = 99\n")})

    def paid(change: Callable[[str, bytes], bytes]) -> float:
        patch = diff_trees(files, {path: change(path, data) for path, data in files.items()})
        files_f1, lines_f1, precision = localisation(patch, gold)
        end = {"tier": 2.0, "submitted": 1.0, "patched": 1.0, "tests_run": 1.0}
        return g_ra().total([end | {"localised": aimed(files_f1, lines_f1, precision)}])

    appended = paid(lambda path, data: data + b"# a\n")
    each_line = paid(lambda path, data: data.replace(b"\n", b"\n# a\n"))
    honest = paid(lambda path, data: data.replace(b"x = 32\n", b"x = 0\n") if path == "m0.py" else data)
    assert (appended, each_line) == (0.0, 0.0) < (honest, honest)


TRIVIAL = ("tier", "unsubmitted", "empty", "submitted", "patched", "format", "executed", "modified", "tests_run")


@each_row("name", [*TRIVIAL, "mended", "localised", "similarity"])
def test_only_trivial_acts_may_not_be_paid_without_a_gate(name: str):
    problems = " ".join(lint(Scheme({OUTCOME: 1.0, name: 0.01}), CHANNELS, max_turns=30))
    assert f"{name!r} is cheap" in problems if name in TRIVIAL else problems == ""


def test_pay_for_an_empty_or_missing_submission_is_refused():
    assert "'unsubmitted' is cheap" in " ".join(lint(g_ra(no_submit=0.1), CHANNELS, max_turns=30))
    assert "'empty' is cheap" in " ".join(lint(g_ra(empty=0.1), CHANNELS, max_turns=30))
