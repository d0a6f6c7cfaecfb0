"""Harbor and Terminal-Bench task folders: reading, playing in Docker, and grading."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentgym.base.errors import BrokenTask, InfrastructureError, UsageError
from agentgym.core.engine.steps import StepResult
from agentgym.core.messages import ToolCall, assistant, text_of
from agentgym.core.policy import steps
from agentgym.core.task_files import Why
from agentgym.envs.terminal import TerminalEnv
from agentgym.tasks.folders import FolderTasks
from tests.rows import each_row
from tests.task_folders import BASE, harbor_task, terminal_bench_task


def docker(test: Any) -> Any:
    skips = pytest.mark.skipif(not BASE, reason='run first: eval "$(.ci/docker start)"')
    return pytest.mark.docker(skips(test))


def reasons(source: FolderTasks) -> list[str]:
    return [f"{entry.why}: {entry.reason}" for entry in source.left_out]


def test_harbor_folder_is_read(tmp_path: Path):
    harbor_task(
        tmp_path / "greet",
        config="""
[task]
name = "acme/greet"
[metadata]
difficulty = "hard"
tags = ["files"]
[verifier]
timeout_sec = 120.0
env = { LEVEL = "${LEVEL:-3}" }
[agent]
timeout_sec = 77.0
user = "worker"
[environment]
cpus = 2
memory = "3G"
workdir = "/srv"
env = { NAME = "${NAME}" }
""",
        instruction="<!-- harbor-canary GUID 1 -->\n\nGreet.\n",
    )
    source = FolderTasks(tmp_path, split_by="test", variables={"NAME": "Ada"})
    task = source.get("test", 0)
    folder = source.folder(task)
    assert (task.id, task.prompt, task.difficulty, task.tags) == ("acme/greet", "Greet.", 3, ("files",))
    assert (folder.machine.cpus, folder.machine.memory_mb, folder.machine.workdir) == (2, 3072, "/srv")
    assert folder.machine.environment == {"NAME": "Ada"}
    assert (folder.agent.user, folder.agent.timeout_s) == ("worker", 77.0)
    assert (folder.verifier.timeout_s, folder.verifier.environment) == (120.0, {"LEVEL": "3"})


def test_variables_of_this_process_do_not_reach_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("API_KEY", "secret")
    harbor_task(tmp_path / "a", config='[environment]\nenv = { KEY = "${API_KEY}" }')
    with pytest.raises(UsageError, match="needs the variable API_KEY"):
        FolderTasks(tmp_path)


@each_row(
    "config, reason",
    [
        ("[environment]\nos = 'Windows'", "Windows"),
        ("[environment]\ngpus = 1", "GPU"),
        ("[environment]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['a.example']", "listed hosts"),
    ],
)
def test_unsupported_tasks_are_left_out_with_the_reason(tmp_path: Path, config: str, reason: str):
    harbor_task(tmp_path / "good")
    harbor_task(tmp_path / "other", config=config, instruction="Something else.")
    [entry] = FolderTasks(tmp_path).left_out
    assert entry.why is Why.UNSUPPORTED
    assert reason in entry.reason


@each_row(
    "spoil, reason",
    [
        (lambda folder: (folder / "task.toml").write_text("a = ["), "task.toml cannot be read"),
        (lambda folder: (folder / "instruction.md").unlink(), "instruction is missing"),
        (lambda folder: (folder / "tests/test.sh").unlink(), "no tests/test.sh"),
    ],
)
def test_broken_folder_is_left_out_or_refused_if_strict(tmp_path: Path, spoil: Callable[[Path], object], reason: str):
    harbor_task(tmp_path / "good")
    spoil(harbor_task(tmp_path / "spoilt", instruction="Something else."))
    assert reason in reasons(FolderTasks(tmp_path))[0]
    with pytest.raises(UsageError, match="spoilt"):
        FolderTasks(tmp_path, strict=True)


def test_tests_that_download_need_the_network_option(tmp_path: Path):
    harbor_task(tmp_path / "good")
    harbor_task(tmp_path / "far", tests={"test.sh": "apt-get install -y curl\n"}, instruction="Something else.")
    assert "downloads something" in reasons(FolderTasks(tmp_path))[0]
    source = FolderTasks(tmp_path, network="task", split_by="test")
    assert {source.folder(source.get("test", n)).machine.network for n in range(2)} == {"bridge"}


def test_a_terminal_bench_folder_is_read(tmp_path: Path):
    terminal_bench_task(tmp_path / "hello")
    source = FolderTasks(tmp_path, split_by="test")
    task = source.get("test", 0)
    folder = source.folder(task)
    assert (task.id, task.difficulty, task.tags) == ("hello", 1, ("file-operations",))
    assert (folder.agent.timeout_s, folder.verifier.timeout_s) == (120.0, 30.0)
    assert folder.verifier.verdict == "exit_code"
    assert {"solution.sh", "tests", "run-tests.sh", "task.yaml"} <= folder.apart


def test_task_hides_tests_and_solution_but_its_hash_covers_the_tests(tmp_path: Path):
    folder = harbor_task(tmp_path / "a")
    task = FolderTasks(tmp_path, split_by="test").get("test", 0)
    assert "grep -qx" not in str(task.to_dict())
    assert "solve.sh" not in str(task.data)
    (folder / "tests/test.sh").write_text("echo 1 > /logs/verifier/reward.txt\n")
    assert FolderTasks(tmp_path, split_by="test").get("test", 0).hash != task.hash


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Callable[..., TerminalEnv]]:
    environments: list[TerminalEnv] = []

    def begin(folder: Path, **arguments: Any) -> TerminalEnv:
        env = TerminalEnv(folder=folder, split_by="test", **arguments)
        environments.append(env)
        env.reset(options={"index": 0})
        return env

    yield begin
    for env in environments:
        env.close()


def do(env: TerminalEnv, name: str, /, **arguments: Any) -> str:
    return text_of(step(env, name, **arguments).observation[0])


def step(env: TerminalEnv, name: str, /, **arguments: Any) -> StepResult:
    return env.step(assistant("", [ToolCall(name, arguments)]))


def play_solution(env: TerminalEnv) -> StepResult:
    return list(steps(env, env.solution(env.task)))[-1]


@docker
@each_row("write", [harbor_task, terminal_bench_task])
def test_only_the_solution_is_paid(tmp_path: Path, play: Any, write: Callable[[Path], Path]):
    folder = write(tmp_path / "hello")
    ended = play_solution(play(folder))
    assert (ended.reward, ended.info["ending"], ended.info["is_success"]) == (1.0, "solved", True)
    idle = step(play(folder), "submit")
    assert (idle.reward, idle.info["ending"], idle.terminated) == (0.0, "answered", True)


@docker
def test_shell_keeps_its_state_and_jobs(tmp_path: Path, play: Any):
    env = play(harbor_task(tmp_path / "a"))
    assert do(env, "bash", command="cd /tmp && export WHO=Ada && pwd") == "/tmp"
    assert do(env, "bash", command="sleep 300 & echo $WHO $PWD") == "Ada /tmp"
    assert "Running" in do(env, "bash", command="jobs")
    assert do(env, "bash", command="false") == "(exit code 1)"
    assert do(env, "bash", command="cat; echo >&2 no keyboard") == "no keyboard"
    assert do(env, "bash", command="exit 4") == "(The shell has ended; the next command runs in a new one.)"
    assert do(env, "bash", command="pwd") == "/app"


@docker
def test_slow_command_is_stopped_and_the_shell_survives(tmp_path: Path, play: Any):
    env = play(harbor_task(tmp_path / "a"))
    do(env, "bash", command="cd /tmp")
    assert "took too long" in do(env, "bash", command="setsid sleep 301", timeout_s=0.5)
    count = "pwd; cat /proc/[0-9]*/cmdline | tr -d '\\\\0' | grep -c sleep301"
    assert do(env, "bash", command=count) == "/tmp\n0\n(exit code 1)"


@docker
def test_tests_and_solution_are_absent_while_the_agent_works(tmp_path: Path, play: Any):
    for folder in (harbor_task(tmp_path / "h/a"), terminal_bench_task(tmp_path / "t/b")):
        find = "ls /tests /solution /app; find / -xdev -name '*test.sh' -o -name 'sol*.sh'"
        listed = do(play(folder), "bash", command=find)
        assert "test.sh" not in listed.replace("No such file", "")
        assert "solution.sh" not in listed


@docker
@each_row(
    "script, error, message",
    [
        ("exit 3", InfrastructureError, "not even on an untouched machine"),
        # The agent's own reward file does not count.
        ("grep -qx hello out.txt && echo 1 > $REWARD || true", InfrastructureError, "no verdict"),
        ("echo 12 > $REWARD", BrokenTask, "from 0 to 1"),
    ],
)
def test_tests_without_a_valid_reward_are_an_error(
    tmp_path: Path, play: Any, script: str, error: type[Exception], message: str
):
    env = play(harbor_task(tmp_path / "a", tests={"test.sh": f"{script}\n"}))
    do(env, "bash", command="mkdir -p /tests; echo 1 | tee /logs/verifier/reward.txt /logs/verifier/reward.json")
    with pytest.raises(error, match=message):
        step(env, "submit")


@docker
@each_row("leftovers, text", [("keep", ""), ("kill", "1 2 3")])
def test_work_is_graded_if_the_agent_replaces_the_shell(tmp_path: Path, play: Any, leftovers: str, text: str):
    env = play(harbor_task(tmp_path / "a"), leftovers=leftovers)
    shell = f"rm /usr/bin/sh; printf '#!/bin/bash\necho {text}' > /usr/bin/sh; chmod +x /usr/bin/sh"
    do(env, "bash", command=f"echo hello > /app/out.txt; {shell}")
    assert step(env, "submit").reward == 1.0


ENDLESS = "while [ -e /app/endless ]; do sleep 0.1; done; echo 0 > $REWARD\n"


@docker
@each_row("command, tests", [("rm -f /usr/bin/bash /bin/bash", None), ("touch endless", {"test.sh": ENDLESS})])
def test_breaking_or_stopping_the_tests_is_worth_0(tmp_path: Path, play: Any, command: str, tests: Any):
    """Otherwise an agent could enforce another attempt."""
    options = {"tests": tests, "config": "[verifier]\ntimeout_sec = 1.0"} if tests else {}
    env = play(harbor_task(tmp_path / "a", **options))
    do(env, "bash", command=command)
    ended = step(env, "submit")
    assert (ended.reward, ended.info["tests"]["broken"]) == (0.0, True)


@docker
@each_row(
    "command, reward, rewards",
    [
        ('echo \'{"reward": 0.25, "speed": 7}\' > /logs/verifier/reward.json', 0.25, {"reward": 0.25, "speed": 7.0}),
        ("echo '{\"share\": 0.5}' > /logs/verifier/reward.json; echo 1 > $REWARD", 0.5, {"share": 0.5}),
    ],
)
def test_partial_rewards_are_paid(tmp_path: Path, play: Any, command: str, reward: float, rewards: Any):
    ended = step(play(harbor_task(tmp_path / "a", tests={"test.sh": f"{command}\n"})), "submit")
    assert (ended.reward, ended.info["tests"]["rewards"]) == (reward, rewards)


@docker
def test_limits_of_turns_and_time_end_an_episode_and_the_tests_run(tmp_path: Path, play: Any):
    ended = step(play(harbor_task(tmp_path / "b"), max_turns=1), "bash", command="echo hello > /app/out.txt")
    assert (ended.truncated, ended.reward) == (True, 1.0)
    env = play(harbor_task(tmp_path / "a", config="[agent]\ntimeout_sec = 0.01"))
    ended = step(env, "bash", command="sleep 0.1")
    assert (ended.truncated, ended.info["ending"]) == (True, "time")


@docker
@each_row("leftovers, reward", [("keep", 1.0), ("kill", 0.0)])
def test_servers_of_the_agent_keep_running_or_are_killed(tmp_path: Path, play: Any, leftovers: str, reward: float):
    test = "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8765), 5)' && echo 1 > $REWARD "
    env = play(harbor_task(tmp_path / "a", tests={"test.sh": f"{test} || echo 0 > $REWARD\n"}), leftovers=leftovers)
    server = "import socket, time; s = socket.create_server(('127.0.0.1', 8765)); print(1, flush=True); time.sleep(300)"
    do(env, "bash", command=f'python3 -c "{server}" > log & while ! grep -q 1 log; do sleep 0.05; done')
    ended = step(env, "submit")
    assert (ended.reward, ended.info["tests"]["left_running"]) == (reward, 1)


@docker
def test_machine_ended_by_the_agent_is_replaced(tmp_path: Path, play: Any):
    env = play(harbor_task(tmp_path / "a"))
    do(env, "bash", command="touch mine")
    assert "A new one was set up" in do(env, "bash", command="kill -9 -1; sleep 5")
    assert "mine" not in do(env, "bash", command="ls")
    ended = step(env, "submit")
    assert (ended.reward, ended.info["machine_lost"]) == (0.0, True)


CHECK = "[ ! -e /app/other ] && grep -qx hello /app/out.txt && echo 1 > $REWARD || echo 0 > $REWARD\n"
OWN_CHECK = "#!/bin/bash\ntest -s /logs/artifacts/out.txt; echo $((1 - $?)) > /logs/verifier/reward.txt\n"
OWN_IMAGE = f"FROM {BASE}\nCOPY test.sh /tests/test.sh\n"


@docker
@each_row(
    "artifacts, tests, work",
    [
        ("/app/out.txt", {"test.sh": CHECK}, "echo hello > /app/out.txt"),
        ("", {"Dockerfile": OWN_IMAGE, "test.sh": OWN_CHECK}, "echo hello > /logs/artifacts/out.txt"),
    ],
)
def test_separate_verifier_gets_only_the_artifacts(tmp_path: Path, play: Any, artifacts: str, tests: Any, work: str):
    config = (f'artifacts = ["{artifacts}"]\n' if artifacts else "") + '[verifier]\nenvironment_mode = "separate"'
    folder = harbor_task(tmp_path / "a", config=config, tests=tests)
    fake = "touch /app/other; rm /usr/bin/grep; printf '#!/bin/sh\\nexit 0\\n' > /usr/bin/grep; chmod +x /usr/bin/grep"
    for command, reward in ((f"{work}; {fake}", 1.0), (fake, 0.0)):
        env = play(folder)
        do(env, "bash", command=command)
        assert step(env, "submit").reward == reward


@docker
def test_machine_has_the_settings_of_the_task(tmp_path: Path, play: Any):
    folder = harbor_task(
        tmp_path / "a",
        config="""
[environment]
workdir = "/srv"
env = { COLOUR = "blue" }
[environment.healthcheck]
command = "test -e /srv/ready || { touch /srv/ready; false; }"
interval_sec = 0.05
[agent]
user = "1234"
""",
        dockerfile="RUN mkdir /srv && chmod 777 /srv\nENV SIZE=big",
    )
    env = play(folder)
    assert do(env, "bash", command="id -u; pwd; echo $COLOUR $SIZE; ls") == "1234\n/srv\nblue big\nready"
    assert do(env, "bash", command="ls /sys/class/net") == "lo"


@docker
def test_an_image_that_cannot_be_built_is_an_infrastructure_error(tmp_path: Path, play: Any):
    env = play(harbor_task(tmp_path / "a", dockerfile="RUN echo oh no && exit 5"))
    with pytest.raises(InfrastructureError, match=r"cannot be built(.|\n)*oh no"):
        step(env, "bash", command="true")


def test_solution_writes_its_further_files(tmp_path: Path):
    folder = harbor_task(tmp_path / "a", solution={"solve.sh": "sh $(dirname $0)/part.sh\n", "part.sh": "echo\n"})
    (folder / "solution/data.bin").write_bytes(bytes(range(256)))
    env = TerminalEnv(folder=folder, split_by="test")
    calls = [call for call in env.solution(env.tasks.get("test", 0)) if isinstance(call, ToolCall)]
    assert [call.arguments.get("path") for call in calls if call.name == "write"] == [
        "/solution/data.bin", "/solution/part.sh", "/solution/solve.sh",
    ]  # fmt: skip
    assert calls[-1].name == "submit"
