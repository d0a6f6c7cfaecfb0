"""Equivalent mutants: the program does the same, or differs only in ways that nothing promises."""

from __future__ import annotations

from typing import NamedTuple


class Equivalent(NamedTuple):
    """A mutant that no test should notice, identified by its line's text, so that it is found again after edits."""

    file: str
    line: str
    becomes: str | None
    """`None` if no replacement of the line can be noticed."""
    why: str


_GRADING = "envs/sql/grading.py"
_FAR = "a bound far beyond any real line"
_FAR_NOTES = "a bound far beyond what any test compares, used by those who write notes and by those who read them"
_PATIENCE = "how long something that does not end is waited for; no promise depends on it"
_ANY_SEED = "any seed will do that is the same every time"
_ANY_OTHER = "which other episode or action is taken makes no difference"
_TRIED = "how much is tried; one more or less finds the same mistakes"
_BOUND_ON_WORK = "a bound on how long is searched, far beyond any real result; one more or less changes no grade"

EQUIVALENT = (
    Equivalent(_GRADING, "tries = 0", "tries = 1", _BOUND_ON_WORK),
    Equivalent(_GRADING, "tries = 0", "tries = -1", _BOUND_ON_WORK),
    Equivalent(_GRADING, "_MAX_TRIES = 2_000", "_MAX_TRIES = 2001", _BOUND_ON_WORK),
    Equivalent(_GRADING, "_MAX_TRIES = 2_000", "_MAX_TRIES = 1999", _BOUND_ON_WORK),
    Equivalent(
        _GRADING,
        "if i in assigned or mine.columns[i] in tried_columns or tries >= _MAX_TRIES:",
        "if i in assigned or mine.columns[i] in tried_columns or tries > _MAX_TRIES:",
        _BOUND_ON_WORK,
    ),
    Equivalent(
        _GRADING,
        "if ordered or len(assigned) == 1:",
        "if ordered or len(assigned) == 0:",
        "a short cut: one chosen column has been compared already, and comparing it again finds the same",
    ),
    Equivalent(
        "trainers/credit.py",
        "if count and len(earned) > count:",
        "if count or len(earned) > count:",
        "where only one of the two holds, nothing is added to any turn that is returned",
    ),
    Equivalent(
        "trainers/credit.py",
        "if count and len(earned) > count:",
        "if count and len(earned) >= count:",
        "the sum of no turns is added",
    ),
    Equivalent(
        "agentgym/eval/statistics.py",
        "powers = [2**exponent for exponent in range(attempts.bit_length()) if 2**exponent <= attempts]",
        "powers = [2**exponent for exponent in range(attempts.bit_length()) if 2**exponent < attempts]",
        "the number of attempts itself is added in any case",
    ),
    Equivalent(
        "agentgym/rollout/streams.py",
        "await asyncio.sleep(self.failures.backoff.wait_s(max(failures, 1), draw))",
        None,
        "how long is waited between two tries is a courtesy to what broke; it changes no result",
    ),
    Equivalent(
        "agentgym/core/rewards.py",
        "return 0.0, 0.0",
        "return 1.0, 0.0",
        "of a failed episode only the greatest pay is used, which is the second number",
    ),
    Equivalent(
        "agentgym/core/rewards.py",
        "return 0.0, 0.0",
        "return -1.0, 0.0",
        "of a failed episode only the greatest pay is used, which is the second number",
    ),
    Equivalent(
        "agentgym/core/history.py",
        'if index < old_until and message.get("role") in ("user", "tool")',
        'if index <= old_until and message.get("role") in ("user", "tool")',
        "the message at that place is the policy's own",
    ),
    Equivalent(
        "agentgym/core/history.py",
        "_shortened(message, index < task_until, max_chars)",
        "_shortened(message, index <= task_until, max_chars)",
        "the message at that place is the policy's own",
    ),
    *(
        Equivalent(
            "agentgym/core/rewards.py",
            "if not gate.is_open((earned[gate.on],), 0):",
            f"if not gate.is_open((earned[gate.on],), {turn}):",
            "gates act on sums here, and those do not read the number of the turn",
        )
        for turn in (1, -1)
    ),
    Equivalent(
        "agentgym/core/dialects/compact.py",
        "following = names.opening.search(text, opening.end(1))",
        "following = names.opening.search(text, opening.end(0))",
        "what stands between the two is the white space after the name, where no call begins",
    ),
    Equivalent(
        "agentgym/core/answers/cells.py",
        "return tuple(0.0 if i in fractions and is_number(cell) else cell for i, cell in enumerate(row))",
        "return tuple(0.0 if i in fractions or is_number(cell) else cell for i, cell in enumerate(row))",
        "rows are only sorted into buckets by it, and compared in full afterwards",
    ),
    Equivalent(
        "envs/code/verdict.py",
        "argument_texts = [[json.dumps(part) for part in tree[1][1:]] for tree in arguments]",
        "argument_texts = [[json.dumps(part) for part in tree[1][0:]] for tree in arguments]",
        "the first part is the tag of the tree, which no expected value equals",
    ),
    Equivalent(
        "trainers/batches.py",
        "while len(indices) < count:",
        "while len(indices) <= count:",
        "an epoch more is drawn and cut off again",
    ),
    Equivalent("envs/code/verdict.py", "_MAX_PAIRS = 40_000", None, "a bound on work, far beyond any real result"),
    Equivalent("agentgym/check/report.py", "CHECK_TIMEOUT_S = 120.0", None, _PATIENCE),
    Equivalent("agentgym/check/report.py", "RESETS, STEPS = 500, 5000", None, _PATIENCE),
    Equivalent("agentgym/check/play.py", "_SPARE_TURNS = 3", None, _PATIENCE),
    Equivalent("agentgym/check/play.py", "env.action_space.seed(int(task.hash[:8], 16))", None, _ANY_SEED),
    Equivalent(
        "agentgym/check/adversaries.py",
        "samples = ActionSpace(env.tools, env.dialect, seed=int(task.hash[:8], 16))",
        None,
        _ANY_SEED,
    ),
    Equivalent("agentgym/check/seeding.py", "_SEEDS = 16", None, _TRIED),
    Equivalent("agentgym/check/tasks.py", "_LOOKED_UP = 40", None, _TRIED),
    Equivalent("agentgym/check/honest.py", "_TRIES = 24", None, _TRIED),
    Equivalent("agentgym/check/honest.py", "_PER_STEP = 5", None, _TRIED),
    Equivalent(
        "agentgym/check/hostile.py",
        "yield text[: len(text) * 2 // 3]",
        "yield text[: len(text) * 2 // 4]",
        "where a text is cut short makes no difference",
    ),
    Equivalent(
        "agentgym/check/hostile.py",
        "yield text[: len(text) * 2 // 3]",
        "yield text[: len(text) * 1 // 3]",
        "where a text is cut short makes no difference",
    ),
    Equivalent(
        "agentgym/check/hostile.py", "over = False", "over = True", "an episode is begun twice with the same seed"
    ),
    Equivalent(
        "agentgym/check/gold.py",
        'digest = sha256(f"{task.id}{len(words)}".encode()).hexdigest()',
        None,
        "any text will do that turns up nowhere else",
    ),
    Equivalent(
        "agentgym/check/lifecycle.py",
        'episode = subject.episodes("solution")[0]',
        None,
        "which task is played makes no difference",
    ),
    *(
        Equivalent("agentgym/base/json_lines.py", "MAX_LINE = 256 * 2**20", f"MAX_LINE = {size}", _FAR)
        for size in ("257 * 2**20", "255 * 2**20", "256 * 2** 19", "256 * 2** 21", "256 * 3**20")
    ),
    *(
        Equivalent("agentgym/core/engine/authoring.py", f"{line} = False", None, "every class sets its own")
        for line in ("_is_async: bool", "_stops: ClassVar[bool]", "_hears_asides: ClassVar[bool]")
    ),
    *(
        Equivalent(f"agentgym/check/{file}.py", line, None, _TRIED)
        for file, line in (
            ("subject", "_SCANNED = 200"),
            ("subject", "_SCAN_SECONDS = 2.0"),
            ("subject", "_CONTEST_SECONDS = 20.0"),
            ("subject", "_TRIED_STEPS = 3"),
        )
    ),
    Equivalent(
        "trainers/chat.py",
        "text = self.tokenizer.decode(content, skip_special_tokens=False, clean_up_tokenization_spaces=False)",
        "text = self.tokenizer.decode(content, skip_special_tokens=False, clean_up_tokenization_spaces=True)",
        "byte-level tokenizers, as chat models have, find nothing to clean up",
    ),
    *(
        Equivalent(f"agentgym/check/{file}.py", line, becomes, why)
        for file, line, becomes, why in (
            ("contract", "wrapped: Any = RecordEpisodeStatistics(TimeLimit(env, max_episode_steps=2))", None, _TRIED),
            ("seeding", "other = episodes[(number + 1) % len(episodes)]", None, _ANY_OTHER),
            ("lifecycle", "first.reset(seed=episode.seed + 1)", "first.reset(seed=episode.seed + 2)", _ANY_SEED),
            ("lifecycle", "for episode in subject.few_probed[:4]:", "for episode in subject.few_probed[: 3]:", _TRIED),
            ("lifecycle", "for episode in subject.few_probed[:4]:", "for episode in subject.few_probed[: 5]:", _TRIED),
            ("seeding", "other = others[(number + 1) % len(others)]", None, _ANY_OTHER),
            ("seeding", "sibling.step(other.actions[0])", None, _ANY_OTHER),
            ("hostile", "_WRITTEN, _WRITTEN_IF_SLOW = 60, 20", None, _TRIED),
        )
    ),
    *(
        Equivalent(
            "agentgym/check/seeding.py",
            f'for number, episode in enumerate(subject.episodes("random")[:{was}]):',
            f'for number, episode in enumerate(subject.episodes("random")[: {becomes}]):',
            _TRIED,
        )
        for was, becomes in ((6, 5), (6, 7))
    ),
    *(
        Equivalent(
            "envs/code/verdict.py",
            "return 200 + _ROOM * len(text)",
            f"return {room} + _ROOM * len(text)",
            "a bound far beyond the text of any right outcome",
        )
        for room in (199, 201)
    ),
    Equivalent(
        "envs/code/canaries.py",
        "for value, other in ((tested.comparators[0], tested.left), (tested.left, tested.comparators[0])):",
        "for value, other in ((tested.comparators[0], tested.left), (tested.left, tested.comparators[-1])):",
        "a comparison with one operator has one comparator",
    ),
    Equivalent(
        "envs/code/canaries.py",
        "for value, other in ((tested.comparators[0], tested.left), (tested.left, tested.comparators[0])):",
        "for value, other in ((tested.comparators[-1], tested.left), (tested.left, tested.comparators[0])):",
        "a comparison with one operator has one comparator",
    ),
    Equivalent(
        "agentgym/check/tasks.py",
        '(f"get({split!r}, -1)", lambda: source.get(split, -1)),',
        '(f"get({split!r}, -1)", lambda: source.get(split, - 2)),',
        "any number below 0 names no task",
    ),
    Equivalent(
        "agentgym/check/gold.py",
        "around = short(text[max(0, text.index(leaks[0]) - 60) :])",
        "around = short(text[max(0, text.index(leaks[-1]) - 60) :])",
        "which of several leaks is shown makes no difference",
    ),
    *(
        Equivalent(
            "agentgym/check/gold.py",
            "around = short(text[max(0, text.index(leaks[0]) - 60) :])",
            f"around = short(text[max(0, text.index(leaks[0]) - {before}) :])",
            "how much is shown around a leak makes no difference",
        )
        for before in (59, 61)
    ),
    Equivalent(
        "envs/code/replay.py",
        "hidden=1.0 if solved else min(share([*alike.values()], False), 1.0 - 1.0 / max(1, len(alike))),",
        "hidden=1.0 if solved else min(share([*alike.values()], True), 1.0 - 1.0 / max(1, len(alike))),",
        "where there are no calls, the other bound is 0",
    ),
    Equivalent(
        "envs/code/canaries.py",
        "if len(node.body) > 1 and ast.get_docstring(node, clean=False) is not None:",
        "if len(node.body) > 1 and ast.get_docstring(node, clean=True) is not None:",
        "only whether there is one counts",
    ),
    Equivalent(
        "agentgym/core/dialects/hermes.py",
        "if closes < 0:",
        "if closes < 1:",
        "the tag that closes a call never stands at the very beginning",
    ),
    Equivalent("agentgym/check/subject.py", "break", "continue", "more is looked at than there is time for"),
    Equivalent("envs/swe/stand_in.py", "MAX_NOTES = 1000", None, _FAR_NOTES),
    Equivalent(
        "envs/swe/values.py",
        "other = round(value + step * 10.0**-place, max(1, places))",
        "other = round(value - step * 10.0**-place, max(1, places))",
        "each step is taken in both directions",
    ),
    Equivalent(
        "agentgym/check/gold.py",
        "number = int(digest[:12], 16) % 10**6 + 10**6",
        "number = int(digest[:12], 16) % 11**6 + 10**6",
        "any large number will do that turns up nowhere else",
    ),
    Equivalent(
        "envs/swe/disguise.py",
        'name = f"test_{order}{rng.randrange(16**8):08x}"',
        'name = f"test_{order}{rng.randrange(15**8):08x}"',
        "names are as wide and as unforeseeable",
    ),
    Equivalent("envs/swe/draws.py", "APART = 8", None, _TRIED),
    Equivalent("agentgym/check/tasks.py", "_MORE, _MORE_SECONDS = 400, 0.25", None, _TRIED),
    Equivalent("agentgym/eval/summary.py", "MAX_ERRORS = 5", None, "how many are printed; what is left out is counted"),
    Equivalent(
        "envs/swe/values.py",
        'places = len(repr(value).partition(".")[2]) if "e" not in repr(value) else 6',
        'places = len(repr(value).partition(".")[2]) if "e" not in repr(value) else 5',
        "such a number is changed by a whole one; how many of its digits are left makes no difference",
    ),
    Equivalent("agentgym/check/honest.py", "PER_TASK = 16", None, _TRIED),
    Equivalent(
        "agentgym/check/pay.py",
        "return [name for name, paid in contest.pay(scheme).items() if paid > limit]",
        "return [name for name, paid in contest.pay(scheme).items() if paid >= limit]",
        "two payments are equal up to rounding or further apart; none are apart by just the allowance",
    ),
    Equivalent(
        "agentgym/check/work.py",
        "if same and _may_hold_an_answer(env, solutions[0].actions[-1]):",
        "if same and _may_hold_an_answer(env, solutions[1].actions[-1]):",
        "where `same` holds, all of them end with the same action",
    ),
)
