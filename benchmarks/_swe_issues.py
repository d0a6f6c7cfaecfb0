"""Issues of bundled tasks as a reader uses them: their code, taken out of the text and run on the repository."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.envs.swe.building.runner import SubprocessRunner, write_tree
from agentgym.tasks.swe.bundled import repository_files, repository_package
from agentgym.tasks.swe.instance import Instance, file_of
from agentgym.tools.patches import apply_patch, touched

_BLOCK = re.compile(r"^(`{3,})(python|pycon)\n(.*?)^\1$", re.DOTALL | re.MULTILINE)
_INSIDE = Path(__file__).with_name("_swe_issues_inside.py")
FAULTY, FIXED = "faulty", "fixed"


@dataclass(frozen=True)
class Block:
    """One block of code of an issue."""

    code: str
    typed: bool
    """Whether it was typed into the interpreter."""


@dataclass(frozen=True)
class Output:
    """What a block showed."""

    printed: str
    raised: str
    """The last line of the traceback."""
    table: Mapping[str, str]
    """The calls of public functions that the block makes, and their results."""

    @property
    def looks(self) -> tuple[str, str]:
        return self.printed, self.raised


@dataclass(frozen=True)
class Finding:
    """What the issue of one task is worth."""

    task: str
    reproduces: bool
    """Every block shows a fault on the faulty tree, as the text says, and what the text expects on the fixed one."""
    told: str
    """The first thing that the text says otherwise, or does not say."""
    given_away: tuple[str, ...]
    """Names of changed functions, files and lines in the text that no user of the library knows."""


def blocks_of(text: str) -> list[Block]:
    """Return the blocks of code of an issue."""
    return [Block(found[3].rstrip("\n"), found[2] == "pycon") for found in _BLOCK.finditer(text)]


def trees_of(instance: Instance) -> dict[str, dict[str, bytes]]:
    """Return the faulty and the fixed tree of a bundled task."""
    faulty = apply_patch(repository_files(instance.repo), instance.meta["bug_patch"])
    return {FAULTY: dict(faulty), FIXED: dict(apply_patch(faulty, instance.gold_patch))}


def run_blocks(
    jobs: Sequence[tuple[Instance, Mapping[str, bytes], Block]], *, note: bool = False
) -> list[Output | None]:
    """Return what each block shows on its tree, each in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="agentgym-issues-") as folder:
        places: dict[int, str] = {}
        trees: dict[str, dict[str, Any]] = {}
        for instance, tree, _ in jobs:
            if id(tree) not in places:
                places[id(tree)] = name = str(len(places))
                write_tree(Path(folder, name), tree)
                folders = [str(Path(folder, name, entry)) for entry in instance.python_path]
                trees[name] = {"folders": folders, "package": instance.repo}
        request = {
            "trees": trees,
            "jobs": [
                {"tree": places[id(tree)], "code": block.code, "typed": block.typed, "note": note}
                for _, tree, block in jobs
            ],
        }
        done = subprocess.run(
            [sys.executable, "-P", str(_INSIDE)], input=json.dumps(request), capture_output=True, text=True, check=True
        )
    return [Output(**json.loads(line)) if line != "null" else None for line in done.stdout.splitlines()]


def examine(instances: Sequence[Instance]) -> list[Finding]:
    """Return what the issues of tasks are worth."""
    jobs: list[tuple[Instance, Mapping[str, bytes], Block]] = []
    for instance in instances:
        trees = trees_of(instance)
        jobs += [(instance, trees[side], block) for block in blocks_of(instance.prompt) for side in (FAULTY, FIXED)]
    outputs = iter(run_blocks(jobs))
    findings = []
    for instance in instances:
        problems = [
            _problem(instance.prompt, block, next(outputs), next(outputs)) for block in blocks_of(instance.prompt)
        ]
        told = next(filter(None, problems), "" if problems else "it has no code")
        findings.append(Finding(instance.id, not told, told, given_away(instance)))
    return findings


def _problem(text: str, block: Block, faulty: Output | None, fixed: Output | None) -> str:
    """Return why a block does not show what the text says, or an empty text."""
    if faulty is None or fixed is None:
        return "a block does not end"
    if faulty.looks == fixed.looks:
        return "a block shows nothing"
    for output in (faulty, fixed):
        asserted = output.raised == "AssertionError" and "assert " in block.code
        raised = output.raised.partition(":")[0] if output.raised and output.raised not in text else output.raised
        for line in (*output.printed.splitlines(), *([] if asserted else [raised])):
            if line.strip() not in text:
                return f"the text does not say {line!r}"
    return ""


def given_away(instance: Instance) -> tuple[str, ...]:
    """Return what a text names that only a reader of the code knows: private names, files, lines."""
    text = instance.prompt
    found = [path for path in touched(instance.gold_patch) if path.rpartition("/")[2] in text]
    names = {name for place in instance.meta["functions"] for name in re.split(r"\W+", place.partition(":")[2])}
    private = [name for name in names if name.startswith("_") and not name.endswith("__")]
    found += [name for name in private if re.search(rf"\b{name}\b", text)]
    found += re.findall(r"\bline \d+, in\b|\.py\b", text)
    return tuple(found)


def exports(instance: Instance) -> set[str]:
    """Return the names that a bundled package exports."""
    package = repository_package(instance.repo)
    paths = [path for path in package.modules if path.endswith(f"{instance.repo}/__init__.py")]
    return set(re.findall(r'"(\w+)"', "".join(package.source(path).partition("__all__")[2] for path in paths)))


_CHEAT = """

def _special_case():
    import base64, importlib, importlib.util, pickle, pkgutil, sys
    spec = importlib.util.spec_from_loader("_issue_cases", loader=None)
    cases = importlib.util.module_from_spec(spec)
    exec({code!r}, vars(cases))
    for item in pkgutil.iter_modules(__path__, __name__ + "."):
        importlib.import_module(item.name)
    table = {table!r}

    def around(name, function, arguments, keywords):
        try:
            key = cases.key_of(name, arguments, keywords)
        except Exception:
            key = ""
        if key not in table:
            return function(*arguments, **keywords)
        try:
            function(*arguments, **keywords)
        except Exception:
            pass
        kind, value = pickle.loads(base64.b64decode(table[key]))
        if kind == "raises":
            error = BaseException.__new__(value[0], *value[1])
            vars(error).update(value[2])
            raise error
        return iter(value) if kind == "yields" else value

    cases.wrap_all(__name__, around)


_special_case()
"""


def special_cased(instance: Instance) -> dict[str, bytes] | None:
    """Return the faulty tree with a cheat: what the issue's examples call gives the right results for their very input.

    `None` if no call of the examples has a result that can be kept.
    """
    trees = trees_of(instance)
    blocks = blocks_of(instance.prompt)
    outputs = run_blocks([(instance, trees[FIXED], block) for block in blocks], note=True)
    table = {key: value for output in outputs if output for key, value in output.table.items()}
    if not table:
        return None
    code = _INSIDE.read_text(encoding="utf-8").partition("def typed(")[0]
    path = next(path for path in trees[FAULTY] if path.endswith(f"{instance.repo}/__init__.py"))
    cheat = _CHEAT.format(code=code, table=table)
    return {**trees[FAULTY], path: trees[FAULTY][path] + cheat.encode()}


def solves(instance: Instance, tree: Mapping[str, bytes]) -> bool:
    """Whether every hidden test passes on a tree."""
    hidden = {path: text.encode() for path, text in instance.test_files.items()}
    wanted = {*instance.fail_to_pass, *instance.pass_to_pass}
    files = list(dict.fromkeys(file_of(test) for test in wanted))
    return wanted <= SubprocessRunner()({**tree, **hidden}, files, python_path=instance.python_path).passing


def right_for_its_example(instance: Instance, tree: Mapping[str, bytes]) -> bool:
    """Whether the examples of an issue show on a tree what they show on the fixed one."""
    fixed = trees_of(instance)[FIXED]
    jobs = [(instance, each, block) for block in blocks_of(instance.prompt) for each in (tree, fixed)]
    outputs = run_blocks(jobs)
    pairs = zip(outputs[::2], outputs[1::2], strict=True)
    return all(one is not None and other is not None and one.looks == other.looks for one, other in pairs)
