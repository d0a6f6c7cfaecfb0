"""`SWEEnv` as a policy sees it: its tools and their advice, its rewards, and what it records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from agentgym.base.errors import UsageError
from agentgym.check.play import CheckedEpisode, assistant_call, play
from agentgym.core.engine.steps import StepResult
from agentgym.core.messages import ToolCall, text_of
from agentgym.core.policy import solution_player
from agentgym.envs.swe import SWEEnv, Tier
from agentgym.envs.swe.building.sandbox_runner import SandboxRunner
from agentgym.envs.swe.grading import SWEGrader
from agentgym.envs.swe.judge import Manner
from agentgym.envs.swe.options import WORK_LIMITS
from agentgym.envs.swe.repository import Repository
from agentgym.envs.swe.sandboxes import Sandboxes
from agentgym.tasks.swe.instance import Instance
from agentgym.tasks.swe.pytest_folder import pytest_folder
from agentgym.tools.sandbox import Sandbox
from tests.envs.swe.false_positives import false_accusations
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


def output(env: SWEEnv, name: str, **arguments: Any) -> str:
    return "\n".join(text_of(message) for message in do(env, name, **arguments).observation)


@each_row("style, turns", [("full", 5), ("short", 2)])
def test_solution_solves_the_task(file: Path, style: Any, turns: int):
    env = SWEEnv(file=file, solution_style=style)
    episode: CheckedEpisode = play(env, env.tasks.get("train", 0), 0, solution_player)
    assert (episode.outcome, len(episode.results)) == (1.0, turns)
    assert episode.turns[-1]["localised"] == episode.turns[-1]["similarity"] == 1.0
    env.close()


def test_opening_has_the_problem_and_not_the_fix(env: SWEEnv):
    observation, info = env.reset(seed=0)
    opening = "\n".join(map(text_of, observation))
    assert INSTANCE.prompt in opening
    assert "split()" not in opening + str(info)


def test_files_are_listed_viewed_and_searched(env: SWEEnv):
    assert "textkit/words.py" in output(env, "list_files").splitlines()
    assert output(env, "view", path="textkit/words.py", start=6, end=7).startswith("6\tdef words(text):\n7\t")
    assert "has lines 1 to 1" in output(env, "view", path="README.md", start=5)
    assert output(env, "search", pattern=r"def \w+s\(").splitlines()[0] == "textkit/words.py:6: def words(text):"


def test_edits_insertions_new_files_and_patches_change_the_workspace(env: SWEEnv):
    assert "at line 1" in output(env, "edit", path="README.md", old="# textkit", new="# Textkit")
    assert "after line 1" in output(env, "insert", path="README.md", line=1, text="second")
    assert output(env, "create", path="a/b.txt", content="x\n") == "Created a/b.txt, 1 line."
    patch = "--- a/README.md\n+++ b/README.md\n@@ -1,2 +1,2 @@\n # Textkit\n-second\n+third\n"
    assert output(env, "apply_patch", patch=patch) == "Applied to README.md."
    command = "cat README.md a/b.txt; echo err >&2; exit 3"
    assert output(env, "run", command=command) == "# Textkit\nthird\nx\nerr\n(exit code 3)"


def test_search_and_edits_agree_on_lines_and_name_what_was_not_searched(env: SWEEnv):
    script = (
        "open('a.py', 'wb').write(b'# coding: latin-1\\n\\x0cx = 1\\r\\n\\xe9 = 2\\n')\n"
        "open('b.bin', 'wb').write(b'\\0')\nopen('c.txt', 'wb').write(b'x' * 5_000_000)\n"
        "import os; os.mkfifo('pipe'); os.symlink('nowhere', 'link')"
    )
    do(env, "run", command=f'python -c "{script}"')
    assert output(env, "search", pattern="^é = 2$").split("\n") == [
        "a.py:3: é = 2",
        "(not searched, as they are binary: b.bin)",
        "(not searched, as they are larger than 4000000 bytes: c.txt)",
        "(not searched, as they are not regular files: link, pipe)",
    ]
    assert output(env, "view", path="a.py", start=3) == "3\té = 2"
    assert "at line 3" in output(env, "edit", path="a.py", old="é = 2", new="é = 3")
    patch = "--- a/a.py\n+++ b/a.py\n@@ -2,2 +2,2 @@\n-\x0cx = 1\n+\x0cx = 2\n é = 3\n"
    assert output(env, "apply_patch", patch=patch) == "Applied to a.py."
    printed = output(env, "run", command="python -c \"print(open('a.py', 'rb').read())\"")
    assert printed == repr(b"# coding: latin-1\n\x0cx = 2\r\n\xe9 = 3\n")
    assert "there is no nowhere" in output(env, "search", pattern="x", path="nowhere")
    assert output(env, "search", pattern="zzz", path="README.md") == "No matches."


def test_the_repository_has_a_history_that_shows_the_agents_changes_alone(env: SWEEnv):
    assert output(env, "run", command="git status --short; git log --format=%s; git diff") == "Initial commit"
    do(env, "edit", path="README.md", old="# textkit", new="# Textkit")
    assert output(env, "run", command="git status --short; git diff | grep '^[+-]#'") == (
        " M README.md\n-# textkit\n+# Textkit"
    )
    assert ".git" not in output(env, "list_files") + output(env, "search", pattern="Initial commit")
    do(
        env,
        "run",
        command="git checkout -q .; git config core.fsmonitor 'touch /tmp/ran'; echo x > .git/hooks/pre-commit",
    )
    result = do(env, "submit")
    assert result.info["rewards"]["empty"] == result.info["rewards"]["tier"] == 1.0
    assert result.info["dropped"] == {}


def test_folders_that_hold_only_folders_take_no_level(env: SWEEnv):
    do(env, "run", command="mkdir -p src/pkg/sub/deep src/.git tests; touch src/pkg/a.py src/pkg/sub/deep/b.py")
    listed = output(env, "list_files").split("\n")
    assert {"src/", "src/pkg/", "src/pkg/a.py", "src/pkg/sub/", "textkit/words.py"} <= set(listed)
    assert "src/pkg/sub/deep/" not in listed


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
    assert output(env, "run", command="cat README.md") == "# textkit"


def test_tests_are_run_and_shown_without_durations(env: SWEEnv):
    answer = output(env, "run_tests")
    assert answer.splitlines()[-1] == "6 passed"
    do(env, "edit", path="textkit/words.py", old='text.split(" ")', new="[]")
    answer = output(env, "run_tests", paths=["tests/test_words.py"])
    assert "FAILED tests/test_words.py::test_words_of_one_blank" in answer


BREAKS = (".upper()", ".lower()")


@each_row(
    "edits, mended, tier",
    [
        ([], 0.0, Tier.EMPTY),
        ([('text.split(" ")', '[word for word in text.split(" ") if word]')], 2 / 3, Tier.FAILS),
        ([BREAKS], 0.0, Tier.FAILS),
        ([('text.split(" ")', "text.split()"), BREAKS], 1.0, Tier.FAILS),
    ],
)
def test_partial_work_is_paid_by_tier_and_share(file: Path, edits: list[tuple[str, str]], mended: float, tier: Tier):
    env = SWEEnv(file=file)
    env.reset(seed=0)
    for before, after in edits:
        do(env, "edit", path="textkit/words.py", old=before, new=after)
    result = do(env, "submit")
    env.close()
    rewards = result.info["rewards"]
    assert (rewards["mended"], rewards["outcome"], result.info["is_success"]) == (pytest.approx(mended), 0.0, False)
    assert (rewards["submitted"], rewards["patched"], rewards["tier"]) == (1.0, float(bool(edits)), tier)


def test_work_without_submission_is_not_paid(file: Path):
    env = SWEEnv(file=file, max_turns=2)
    env.reset(seed=0)
    do(env, "list_files")
    result = do(env, "edit", path="textkit/words.py", old='text.split(" ")', new="text.split()")
    assert result.truncated
    assert result.info["rewards"]["modified"] == 1.0
    assert result.reward == 0.0
    env.close()


def test_result_names_the_sandbox_and_dropped_files(env: SWEEnv):
    do(env, "create", path="conftest.py", content="")
    info = do(env, "submit").info
    assert info["sandbox"]["tier"]
    assert info["dropped"] == {"conftest.py": "test settings"}
    assert info["tampered"] is False


def test_wrong_arguments_are_refused(file: Path):
    with pytest.raises(UsageError, match="solution_style"):
        SWEEnv(file=file, solution_style="quick")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="unknown limits"):
        SWEEnv(file=file, limits={"walls": 3})


GRADER = SWEGrader(Sandboxes("auto", False, WORK_LIMITS, WORK_LIMITS))


def test_grading_has_no_false_positives_on_honest_work():
    counts = false_accusations([REPOSITORY], GRADER, repeats=2)
    assert (counts.accused, counts.refused, counts.unusable, counts.unchanged) == (0, 0, {}, {})
    assert counts.runs == 4
    assert counts.changed > 60


OWN_FILE = "import pathlib\n\ndef test_own_file():\n    assert 'own_file' in pathlib.Path(__file__).read_text()\n"
OWN_NAME = "def test_own_name(request):\n    assert request.node.name == 'test_' + 'own_name'\n"


@each_row("source, manner", [(OWN_FILE, Manner.FILES), (OWN_NAME, Manner.NAMED)])
def test_tests_that_need_their_own_file_or_name_get_it(source: str, manner: Manner):
    test = "tests/test_own.py::test_own_file" if manner is Manner.FILES else "tests/test_own.py::test_own_name"
    instance = replace(
        INSTANCE,
        pass_to_pass=(*INSTANCE.pass_to_pass, test),
        test_files={**INSTANCE.test_files, "tests/test_own.py": source},
    )
    repository = Repository(instance, FILES)
    calibration = GRADER.calibrate(repository)
    assert (calibration.manner, calibration.excused) == (manner, ())
    assert calibration.forms
    assert GRADER.grade(repository, MENDED).passed
    assert not GRADER.grade(repository, CHEATS["patched runtest"]).passed


def test_refactoring_must_pass_its_checks_too():
    instance = replace(INSTANCE, meta={"checks": [{"not_defined": "textkit.words:longest"}]})
    verdict = GRADER.grade(Repository(instance, FILES), MENDED)
    assert (verdict.passed, verdict.mended, len(verdict.unmet)) == (False, 1.0, 1)


def test_bundled_refactorings_are_solved_by_their_gold():
    env = SWEEnv(kind="refactor", solution_style="short")
    for split in env.tasks.splits:
        episode = play(env, env.tasks.get(split, 0), 0, solution_player)
        assert episode.outcome == 1.0, episode.task.id
    env.close()


def test_killed_sandbox_is_reported_and_replaced(env: SWEEnv):
    do(env, "edit", path="README.md", old="# textkit", new="# changed")
    answer = output(env, "run", command="kill -9 1; kill -9 -1; sleep 1")
    after = output(env, "run", command="cat README.md")
    lost = "A new one was set up" in answer
    assert after == ("# textkit" if lost else "# changed")
    assert do(env, "submit").info.get("sandbox_lost", False) is lost


def test_sandboxed_runner_reports_statuses_and_errors():
    outcome = SandboxRunner()(FILES, ["tests/test_words.py"], timeout_s=30.0)
    assert outcome.error is None, outcome.detail
    assert outcome.statuses["tests/test_words.py::test_longest[xx yy-xx]"] == "passed"
    broken = FILES | {"textkit/words.py": b"raise ValueError\n"}
    assert SandboxRunner()(broken, ["tests/test_words.py"], timeout_s=30.0).error == "collection"


@dataclass(frozen=True)
class Images(Sandboxes):
    """Sandboxes that hold the repository from the start, like those of an image."""

    def open(self, instance: Instance, *, sealed: bool = False) -> Sandbox:
        sandbox = super().open(replace(instance, image=None), sealed=sealed)
        sandbox.upload(FILES)
        return sandbox


@each_row("tree, passed", [(MENDED, True), (FILES, False), (CHEATS["skips"], False)])
def test_image_is_graded_by_the_log_of_its_test_command(tree: dict[str, bytes], passed: bool):
    command = f'PYTHONPATH="$PWD:{pytest_folder()}" exec python3 -m pytest -rA -p no:cacheprovider "$@"'
    instance = replace(INSTANCE, image="an/image", test_command=("bash", "-c", command, "tests"))
    grader = SWEGrader(Images("auto", False, WORK_LIMITS, WORK_LIMITS))
    verdict = grader.grade(Repository(instance, FILES, FILES), tree)
    assert verdict.passed is passed
    assert verdict.manner == ("log" if verdict.changed else "")
