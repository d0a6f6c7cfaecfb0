"""`SWEEnv` as a policy sees it: its tools and their advice, its rewards, and what it records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from agentgym.checks.play import Episode, assistant_call, play
from agentgym.engine.steps import StepResult
from agentgym.envs.swe import SWEEnv, Tier, g_ra
from agentgym.envs.swe.building.sandbox_runner import SandboxRunner
from agentgym.envs.swe.false_positives import false_accusations
from agentgym.envs.swe.grading import SWEGrader
from agentgym.envs.swe.judge import Manner
from agentgym.envs.swe.options import WORK_LIMITS
from agentgym.envs.swe.repository import Repository
from agentgym.envs.swe.sandboxes import Sandboxes
from agentgym.errors import TaskError, UsageError
from agentgym.messages import ToolCall, text_of
from agentgym.script import solution_player
from agentgym.tasks.swe.instance import Instance
from agentgym.tasks.swe.pytest_folder import NAMES, pytest_folder
from agentgym.tools.patches import diff_trees
from agentgym.tools.sandbox import Sandbox
from tests.rows import each_row
from tests.swe_cases import CHEATS, FILES, INSTANCE, MENDED, REPOSITORY, write_tasks

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tasks(tmp_path_factory.mktemp("tasks"))


@pytest.fixture
def env(file: Path) -> Any:
    environment = SWEEnv(file=file)
    environment.reset(seed=0)
    yield environment
    environment.close()


def do(env: SWEEnv, name: str, **arguments: Any) -> StepResult:
    return env.step(assistant_call(ToolCall(name, arguments)))


def told(env: SWEEnv, name: str, **arguments: Any) -> str:
    return "\n".join(text_of(message) for message in do(env, name, **arguments).observation)


@each_row("style, turns", [("full", 5), ("short", 2)])
def test_the_solution_solves(file: Path, style: Any, turns: int):
    env = SWEEnv(file=file, solution_style=style)
    episode: Episode = play(env, env.tasks.get("train", 0), 0, solution_player)
    assert (episode.outcome, len(episode.results)) == (1.0, turns)
    assert episode.turns[-1]["localised"] == episode.turns[-1]["similarity"] == 1.0
    env.close()


def test_the_opening_tells_what_is_wrong_and_not_how_to_mend_it(env: SWEEnv):
    observation, info = env.reset(seed=0)
    opening = "\n".join(map(text_of, observation))
    assert INSTANCE.prompt in opening
    assert "split()" not in opening + str(info)


def test_files_are_listed_and_read_with_line_numbers(env: SWEEnv):
    assert "textkit/words.py" in told(env, "list_files").splitlines()
    assert told(env, "view", path="textkit/words.py", start=6, end=7).startswith("6\tdef words(text):\n7\t")
    assert "has lines 1 to 1" in told(env, "view", path="README.md", start=5)
    assert told(env, "search", pattern=r"def \w+s\(").splitlines()[0] == "textkit/words.py:6: def words(text):"
    assert "No matches" in told(env, "search", pattern="nowhere")
    assert "unterminated" in told(env, "search", pattern="(")


def test_an_edit_that_fits_nowhere_is_told_the_nearest_lines(env: SWEEnv):
    answer = told(env, "edit", path="textkit/words.py", old="    return text.splits()", new="x")
    assert "most similar lines" in answer
    assert '8\t    return text.split(" ")' in answer


def test_an_edit_that_fits_several_times_is_told_where(env: SWEEnv):
    assert "3 times" in told(env, "edit", path="textkit/words.py", old="return", new="x")
    assert "lines 8, 16, 21" in told(env, "edit", path="textkit/words.py", old="return", new="x")


def test_edits_insertions_new_files_and_patches_change_the_workspace(env: SWEEnv):
    assert "at line 1" in told(env, "edit", path="README.md", old="# textkit", new="# Textkit")
    assert "after line 1" in told(env, "insert", path="README.md", line=1, text="second")
    assert told(env, "create", path="a/b.txt", content="x\n") == "Created a/b.txt, 1 line."
    patch = "--- a/README.md\n+++ b/README.md\n@@ -1,2 +1,2 @@\n # Textkit\n-second\n+third\n"
    assert told(env, "apply_patch", patch=patch) == "Applied to README.md."
    assert told(env, "run", command="cat README.md a/b.txt") == "# Textkit\nthird\nx"


def test_impossible_calls_are_reported_and_change_nothing(env: SWEEnv):
    for name, arguments in {
        "create": {"path": "README.md", "content": ""},
        "insert": {"path": "README.md", "line": 9, "text": "x"},
        "apply_patch": {"patch": "--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-nothing like it\n+x\n"},
        "view": {"path": "../../etc/passwd"},
        "edit": {"path": "no/such/file.py", "old": "a", "new": "b"},
        "run_tests": {"paths": ["--pdb"]},
        "run": {"command": "a\0b"},
    }.items():
        result = do(env, name, **arguments)
        assert text_of(result.observation[0]).startswith("Error: "), name
        assert result.info["rewards"]["executed"] == 0.0
    assert told(env, "run", command="cat README.md") == "# textkit"


def test_commands_show_what_they_print_and_how_they_end(env: SWEEnv):
    assert told(env, "run", command="echo out; echo err >&2; exit 3") == "out\nerr\n(exit code 3)"
    assert do(env, "run", command="true").info["rewards"]["executed"] == 1.0


def test_tests_are_run_and_shown_without_durations(env: SWEEnv):
    answer = told(env, "run_tests")
    assert answer.splitlines()[-1] == "6 passed"
    do(env, "edit", path="textkit/words.py", old='text.split(" ")', new="[]")
    answer = told(env, "run_tests", paths=["tests/test_words.py"])
    assert "FAILED tests/test_words.py::test_words_of_one_blank" in answer


def test_an_empty_submission_is_the_lowest_tier_but_one(env: SWEEnv):
    rewards = do(env, "submit").info["rewards"]
    assert (rewards["submitted"], rewards["patched"], rewards["tier"], rewards["outcome"]) == (1.0, 0.0, 1.0, 0.0)


def test_a_change_that_mends_some_tests_is_paid_a_share(env: SWEEnv):
    do(env, "edit", path="textkit/words.py", old='text.split(" ")', new='[word for word in text.split(" ") if word]')
    result = do(env, "submit")
    assert result.info["rewards"]["mended"] == pytest.approx(2 / 3)
    assert result.info["rewards"]["tier"] == Tier.FAILS
    assert not result.info["is_success"]


def test_work_that_breaks_what_worked_is_not_solved(env: SWEEnv):
    do(env, "edit", path="textkit/words.py", old='text.split(" ")', new="text.split()")
    do(env, "edit", path="textkit/words.py", old=".upper()", new=".lower()")
    result = do(env, "submit")
    assert result.info["rewards"]["mended"] == 1.0
    assert result.info["rewards"]["outcome"] == 0.0


def test_without_submission_nothing_small_is_paid(file: Path):
    env = SWEEnv(file=file, max_turns=2)
    env.reset(seed=0)
    do(env, "list_files")
    result = do(env, "edit", path="textkit/words.py", old='text.split(" ")', new="text.split()")
    assert result.truncated
    assert result.info["rewards"]["modified"] == 1.0
    assert result.reward == 0.0
    env.close()


def test_the_end_tells_the_sandbox_and_what_was_left_out(env: SWEEnv):
    do(env, "create", path="conftest.py", content="")
    info = do(env, "submit").info
    assert info["sandbox"]["tier"]
    assert info["dropped"] == {"conftest.py": "test settings"}
    assert info["tampered"] is False


def test_unsound_tiers_are_refused(file: Path):
    with pytest.raises(UsageError, match="unsound"):
        SWEEnv(file=file, scheme=g_ra(no_submit=0.0, empty=2.0, fails=3.0, passes=3.5))


def test_wrong_arguments_are_refused(file: Path):
    with pytest.raises(UsageError, match="solution_style"):
        SWEEnv(file=file, solution_style="quick")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="have no kind to choose"):
        SWEEnv(file=file, kind="bugs")
    with pytest.raises(UsageError, match="test_timeout_s"):
        SWEEnv(file=file, test_timeout_s=0)
    with pytest.raises(UsageError, match="unknown limits"):
        SWEEnv(file=file, limits={"walls": 3})


def test_grading_accuses_no_innocent_and_believes_the_solution():
    sandboxes = Sandboxes("auto", False, WORK_LIMITS, WORK_LIMITS)
    found = false_accusations([REPOSITORY], SWEGrader(sandboxes), repeats=2)
    assert (found.accused, found.refused, found.unusable, found.unchanged) == (0, 0, {}, {})
    assert found.runs == 4
    assert found.changed > 60


OWN_FILE = "import pathlib\n\ndef test_own_file():\n    assert 'own_file' in pathlib.Path(__file__).read_text()\n"
OWN_NAME = "def test_own_name(request):\n    assert request.node.name == 'test_' + 'own_name'\n"


@each_row("source, manner", [(OWN_FILE, Manner.FILES), (OWN_NAME, Manner.NAMED)])
def test_tests_that_need_their_own_file_or_name_have_it(source: str, manner: Manner):
    test = "tests/test_own.py::test_own_file" if manner is Manner.FILES else "tests/test_own.py::test_own_name"
    instance = replace(
        INSTANCE,
        pass_to_pass=(*INSTANCE.pass_to_pass, test),
        test_files={**INSTANCE.test_files, "tests/test_own.py": source},
    )
    grader = SWEGrader(Sandboxes("auto", False, WORK_LIMITS, WORK_LIMITS))
    repository = Repository(instance, FILES)
    calibration = grader.calibrate(repository)
    assert (calibration.manner, calibration.excused) == (manner, ())
    assert calibration.forms
    assert grader.grade(repository, MENDED).passed
    assert not grader.grade(repository, CHEATS["patched runtest"]()).passed


def test_a_refactoring_is_judged_by_the_shape_of_the_code_too():
    checks = [{"not_defined": "textkit.words:longest"}]
    instance = replace(INSTANCE, meta={"checks": checks})
    grader = SWEGrader(Sandboxes("auto", False, WORK_LIMITS, WORK_LIMITS))
    found = grader.grade(Repository(instance, FILES), MENDED)
    assert (found.passed, found.mended, len(found.unmet)) == (False, 1.0, 1)


def test_bundled_refactorings_are_solved_by_their_gold():
    env = SWEEnv(kind="refactor", solution_style="short")
    for split in env.tasks.splits:
        episode = play(env, env.tasks.get(split, 0), 0, solution_player)
        assert episode.outcome == 1.0, episode.task.id
    env.close()


def test_an_instance_whose_gold_fails_cannot_be_graded():
    broken = replace(INSTANCE, gold_patch=diff_trees(FILES, {**FILES, "README.md": b"other\n"}))
    grader = SWEGrader(Sandboxes("auto", False, WORK_LIMITS, WORK_LIMITS))
    with pytest.raises(TaskError, match="do not pass on its gold patch"):
        grader.grade(Repository(broken, FILES), MENDED)


def test_a_command_that_ends_the_sandbox_is_told_and_recorded(env: SWEEnv):
    do(env, "edit", path="README.md", old="# textkit", new="# changed")
    answer = told(env, "run", command="kill -9 1; kill -9 -1; sleep 1")
    after = told(env, "run", command="cat README.md")
    lost = "set up anew" in answer
    assert after == ("# textkit" if lost else "# changed")
    assert do(env, "submit").info.get("sandbox_lost", False) is lost


def test_only_pytest_and_what_it_needs_is_in_its_folder():
    names = {path.name.lower() for path in pytest_folder().iterdir() if path.suffix != ".dist-info"}
    assert names == {*NAMES, "_pytest", "py.py", "__pycache__"}


def test_pytest_can_be_run_as_a_command_too(env: SWEEnv):
    assert "6 passed" in told(env, "run", command="python3 -m pytest -v")


def test_the_sandboxed_runner_tells_what_becomes_of_tests():
    outcome = SandboxRunner()(FILES, ["tests/test_words.py"], timeout_s=30.0)
    assert outcome.error is None, outcome.detail
    assert outcome.statuses["tests/test_words.py::test_longest[xx yy-xx]"] == "passed"
    broken = FILES | {"textkit/words.py": b"raise ValueError\n"}
    assert SandboxRunner()(broken, ["tests/test_words.py"], timeout_s=30.0).error == "collection"


def test_running_tests_leaves_nothing_behind(env: SWEEnv):
    before = told(env, "run", command="find . | sort")
    told(env, "run_tests")
    assert told(env, "run", command="find . | sort") == before


def test_the_same_work_is_graded_once(env: SWEEnv, monkeypatch: pytest.MonkeyPatch):
    answers = []
    for _ in range(2):
        env.reset(seed=0)
        do(env, "insert", path="textkit/words.py", line=0, text="# graded once")
        do(env, "run", command="date > .git_is_no_work; mkdir -p textkit/__pycache__; date > textkit/__pycache__/x.pyc")
        do(env, "run", command="rm .git_is_no_work")
        answers.append(do(env, "submit").info["rewards"])
        monkeypatch.setattr(SWEGrader, "judge", lambda *_: pytest.fail("it was graded again"))
    assert answers[0] == answers[1]


@dataclass(frozen=True)
class Images(Sandboxes):
    """Sandboxes that have the repository in them from the start, as those of an image do."""

    def open(self, instance: Instance) -> Sandbox:
        sandbox = super().open(replace(instance, image=None))
        sandbox.upload(FILES)
        return sandbox


@each_row("tree, passed", [(MENDED, True), (FILES, False), (CHEATS["skips"](), False)])
def test_an_image_is_graded_by_the_log_of_its_test_command(tree: dict[str, bytes], passed: bool):
    command = f'PYTHONPATH="$PWD:{pytest_folder()}" exec python3 -m pytest -rA -p no:cacheprovider "$@"'
    instance = replace(INSTANCE, image="an/image", test_command=("bash", "-c", command, "tests"))
    found = SWEGrader(Images("auto", False, WORK_LIMITS, WORK_LIMITS)).grade(Repository(instance, FILES, FILES), tree)
    assert found.passed is passed
    assert found.manner == ("log" if found.changed else "")
