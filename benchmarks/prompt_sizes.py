"""How many tokens a model reads before its first turn, next to the prompts of SkyRL-Gym and AgentBench for like tasks.

Ours are counted for the Hermes dialect, in which Qwen models are given tools: the instructions are the system message,
and the first prompt is everything up to the model's turn (medians over training tasks). A peer's tools are written in
the same way. AgentBench's questions are those of its checkout. SkyRL-Gym's are in data sets of their own, so for SQL
the example of its documentation is counted, whose schema is cut short, and for search the instructions alone.

    pip install tokenizers
    git clone https://github.com/THUDM/AgentBench; git clone https://github.com/NovaSky-AI/SkyRL
    python -m benchmarks.prompt_sizes --tokenizer DIR/tokenizer.json --agentbench AgentBench --skyrl SkyRL

The tokenizer is a `tokenizer.json`, or the folder of a model that holds one.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from tokenizers import Tokenizer

from agentgym import make
from agentgym.dialects import get_dialect
from agentgym.env import Env
from agentgym.messages import Message, system, text_of, user
from agentgym.schema_tool import SchemaTool
from agentgym.task import iterate
from agentgym.toolset import Toolset
from benchmarks._report import Claim, write

OURS: Mapping[str, Mapping[str, Any]] = {
    "sql": {},
    "sql, schema in the prompt": {"show_schema": "prompt"},
    "sql, plain": {"wording": "plain"},
    "code": {},
    "code, plain": {"wording": "plain"},
    "search": {},
    "search, plain": {"wording": "plain"},
    "web": {},
    "swe": {},
}
BEFORE = {"sql": 441, "code": 494, "search": 574, "web": 2360}
"""Medians of the first prompts before they stated turns and grading, and showed a call (agentgym at e99fe94)."""
Count = Callable[[str], int]
Row = dict[str, Any]


def chat(messages: Sequence[Message]) -> str:
    """Return messages as Qwen's template writes them, up to where the model begins."""
    written = [f"<|im_start|>{message.get('role')}\n{text_of(message)}<|im_end|>\n" for message in messages]
    return "".join(written) + "<|im_start|>assistant\n"


def row(name: str, openings: Sequence[Sequence[Message]], count: Count, **more: Any) -> Row:
    """Return the sizes of one environment's prompts."""
    sizes = sorted(count(chat(opening)) for opening in openings)
    instructions = count(text_of(openings[0][0]))
    return {
        "name": name,
        "instructions": instructions,
        "first_prompt": {"median": int(statistics.median(sizes)), "least": sizes[0], "most": sizes[-1]},
        "prompts": len(sizes),
        **more,
    }


def ours(count: Count, tasks: int) -> Iterator[Row]:
    """Yield the sizes of our prompts."""
    for name, kwargs in OURS.items():
        env = make(name.partition(",")[0], **kwargs)
        try:
            openings = [env.reset(options={"task": task})[0] for task in iterate(env.tasks, "train", tasks)]
            yield row(f"agentgym {name}", openings, count, example_call=size_of_example(env, count))
        finally:
            env.close()


def size_of_example(env: Env, count: Count) -> int:
    """Return how many tokens of the instructions the example call takes."""
    if env.example_call is None:
        return 0
    with_it = text_of(env.reset(seed=0)[0][0])
    return count(with_it) - count(with_it.partition("\n\nFor example:\n")[0])


def instructions(text: str, tools: Sequence[Mapping[str, Any]]) -> str:
    """Return a system message with a peer's tools in the Hermes format."""
    toolset = Toolset([SchemaTool(schema, lambda arguments: "") for schema in tools])
    return f"{text.strip()}\n\n{get_dialect('hermes').instructions(toolset)}"


def string_in(source: Path, name: str) -> str:
    """Return the string that a module or a function assigns to a name."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            return str(ast.literal_eval(node.value))
    raise SystemExit(f"{source} assigns no {name}; it has changed since this was written")


def of_agentbench(checkout: Path, count: Count) -> Iterator[Row]:
    """Yield the sizes of AgentBench's prompts for databases, a shell and a shop."""
    tasks = checkout / "src" / "server" / "tasks"

    def tools(name: str) -> list[dict[str, Any]]:
        declared = yaml.safe_load((checkout / "configs" / "tasks" / f"{name}.yaml").read_text(encoding="utf-8"))
        return declared["default"]["parameters"]["tools"]

    lines = (checkout / "data" / "dbbench" / "standard.jsonl").read_text(encoding="utf-8").splitlines()
    told = instructions(string_in(tasks / "dbbench" / "task.py", "SYSTEM_PROMPT"), tools("dbbench"))
    asked = [_question(json.loads(line)) for line in lines if line.strip()]
    yield row("AgentBench dbbench", [[system(told), user(question)] for question in asked], count)
    told = instructions(string_in(tasks / "os_interaction" / "task.py", "system_message"), tools("os"))
    yield row("AgentBench os, without a question", [[system(told)]], count)
    told = instructions(string_in(tasks / "webshop" / "task.py", "prompt_with_max_turn"), tools("webshop"))
    yield row("AgentBench webshop, without a page", [[system(told)]], count)


def _question(entry: Mapping[str, Any]) -> str:
    labelled = (
        ("Evidence about the question: ", "evidence"),
        ("Additional table information about the question: ", "add_description"),
        ("Question: ", "description"),
    )
    return "".join(f"{label}{entry[key]}\n" for label, key in labelled if entry.get(key))


def of_skyrl(checkout: Path, count: Count) -> Iterator[Row]:
    """Yield the sizes of SkyRL-Gym's prompts for SQL and search."""
    page = checkout / "docs" / "content" / "docs" / "examples" / "multi_turn_text2sql.mdx"
    found = re.search(r"```text\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    if found is None:
        raise SystemExit(f"{page} shows no prompt; it has changed since this was written")
    yield row("SkyRL-Gym text2sql, schema cut short", [[user(found[1])]], count)
    source = checkout / "examples" / "train" / "search" / "searchr1_dataset.py"
    told = system(string_in(source, "DEFAULT_SYSTEM_CONTENT"))
    asked = user(string_in(source, "DEFAULT_USER_CONTENT_PREFIX"))
    yield row("SkyRL-Gym search, without a question", [[told, asked]], count)


def claims(rows: Sequence[Row]) -> Iterator[Claim]:
    """Yield what the sizes should be."""
    sizes = {each["name"]: each for each in rows}
    for name, before in BEFORE.items():
        found = sizes[f"agentgym {name}"]
        more = found["first_prompt"]["median"] - found["example_call"] - before
        yield Claim(
            f"{name}: tokens that turns, grading and wording add, besides the example of a call", more, "<=", 40
        )
    told = sizes["agentgym sql"]["instructions"] / sizes["AgentBench dbbench"]["instructions"]
    yield Claim("sql: instructions, relative to AgentBench's for databases", round(told, 3), "<=", 1.0)
    whole = sizes["agentgym sql, schema in the prompt"]["first_prompt"]["median"]
    peer = sizes["SkyRL-Gym text2sql, schema cut short"]["first_prompt"]["median"]
    share = "sql: first prompt with the schema, relative to SkyRL-Gym's with a schema cut short"
    yield Claim(share, round(whole / peer, 3), "<=", 1.5)


def main() -> None:
    """Count and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", type=Path, required=True, help="a tokenizer.json, or a folder with one")
    parser.add_argument("--agentbench", type=Path, required=True, help="a checkout of THUDM/AgentBench")
    parser.add_argument("--skyrl", type=Path, required=True, help="a checkout of NovaSky-AI/SkyRL")
    parser.add_argument(
        "--tasks", type=int, default=100, help="training tasks of each environment, or fewer where it has fewer"
    )
    options = parser.parse_args()
    file = options.tokenizer / "tokenizer.json" if options.tokenizer.is_dir() else options.tokenizer
    tokenizer = Tokenizer.from_file(str(file))

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    rows = [*ours(count, options.tasks), *of_agentbench(options.agentbench, count), *of_skyrl(options.skyrl, count)]
    for each in rows:
        print(f"{each['name']:44} {each['instructions']:>6} {each['first_prompt']['median']:>6}")
    vocabulary = {"tokenizer": f"{tokenizer.get_vocab_size()} tokens"}
    write("prompt_sizes", rows, claims(rows), packages=("tokenizers",), more_versions=vocabulary)


if __name__ == "__main__":
    main()
