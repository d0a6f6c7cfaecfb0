"""The files that get faults, and the tests that should notice: those named after what the file does."""

from __future__ import annotations

_ROLLOUT = (
    "tests/rollout/test_bounds.py",
    "tests/rollout/test_episodes.py",
    "tests/rollout/test_tokens.py",
    "tests/rollout/test_foreign.py",
)
_DIALECTS = (
    "tests/core/test_dialects.py",
    "tests/core/test_dialects_malformed.py",
    "tests/core/test_dialects_template.py",
)
_ENV = (
    "tests/rollout/test_bounds.py",
    "tests/core/test_env.py",
    "tests/core/test_env_async.py",
    "tests/core/test_talking.py",
)
_ANSWERS = ("tests/core/test_equal_answers.py", "tests/envs/sql/test_grading.py")
_SQL = ("tests/envs/sql/test_partial.py", "tests/envs/sql/test_grading.py")
_CHECKS = ("tests/check/test_broken.py", "tests/check/test_runs.py")
_PAY = ("tests/check/test_pay.py", "tests/check/test_honest.py", *_CHECKS)
_SEARCH = ("tests/envs/search/test_grading.py", "tests/envs/search/test_schemes.py")
_SEARCH_MODES = (*_SEARCH, "tests/envs/search/test_env.py", "tests/envs/search/test_modes.py")
_SEARCH_PAY = (*_SEARCH, "tests/envs/search/test_rewards.py")
_CODE = ("tests/envs/code/test_matching.py", "tests/envs/code/test_leaks.py", "tests/envs/code/test_grading.py")
_SWE = ("tests/envs/swe/test_grading.py", "tests/envs/swe/test_withholding.py")
_SWE_CALIBRATED = ("tests/envs/swe/test_calibrated.py", "tests/envs/swe/test_calibration.py")
_SWE_HACKS = ("tests/envs/swe/test_judge.py", "tests/envs/swe/test_grading.py", "tests/envs/swe/test_hacks.py")
_RECORDS = ("tests/core/test_trajectory.py",)

TARGETS: dict[str, tuple[str, ...]] = {
    **{
        f"agentgym/check/{name}.py": _CHECKS
        for name in ("contract", "grading", "lifecycle", "report", "seeding", "tasks", "tools")
    },
    **{f"agentgym/check/{name}.py": _PAY for name in ("adversaries", "honest", "pay")},
    "agentgym/check/tasks.py": ("tests/check/test_splits.py", *_CHECKS),
    **{f"agentgym/check/{name}.py": ("tests/check/test_processes.py", *_CHECKS) for name in ("outcomes", "work")},
    "agentgym/check/gold.py": ("tests/check/test_gold.py", *_CHECKS),
    "agentgym/check/hostile.py": ("tests/check/test_hostile.py", *_CHECKS),
    "agentgym/check/subject.py": ("tests/check/test_subject.py", *_CHECKS),
    "agentgym/check/play.py": ("tests/check/test_play.py", *_CHECKS),
    **{
        f"agentgym/core/answers/{name}.py": _ANSWERS
        for name in ("cells", "dates", "numbers", "texts", "units", "written")
    },
    "agentgym/core/engine/steps.py": ("tests/core/test_answers.py", *_ENV),
    "agentgym/core/dialects/compact.py": _DIALECTS,
    "agentgym/core/dialects/families.py": _DIALECTS,
    "agentgym/core/dialects/fenced.py": _DIALECTS,
    "agentgym/core/dialects/hermes.py": _DIALECTS,
    "agentgym/core/dialects/tags.py": _DIALECTS,
    "agentgym/core/dialects/template.py": _DIALECTS,
    "agentgym/core/dialects/text.py": _DIALECTS,
    "agentgym/core/engine/authoring.py": _ENV,
    "agentgym/core/engine/calling.py": _ENV,
    "agentgym/core/engine/playing.py": _ENV,
    "agentgym/core/env.py": _ENV,
    "agentgym/core/engine/threads.py": ("tests/core/test_threads.py", *_ROLLOUT),
    "agentgym/eval/evaluation.py": ("tests/eval/test_evaluation_seeds.py", "tests/eval/test_evaluation.py"),
    "agentgym/core/history.py": ("tests/core/test_history.py",),
    "agentgym/base/json_lines.py": _RECORDS,
    "agentgym/core/messages.py": ("tests/core/test_messages.py", "tests/core/test_pictures.py"),
    "agentgym/core/procedural.py": ("tests/core/test_procedural.py", "tests/tasks/test_generated.py"),
    "agentgym/base/fields.py": ("tests/core/test_record_fields.py", *_RECORDS),
    "agentgym/core/rewards.py": ("tests/core/test_rewards_lint.py", "tests/core/test_rewards.py"),
    **{
        f"agentgym/rollout/{name}.py": _ROLLOUT
        for name in ("engine", "episode", "failures", "jobs", "limits", "streams", "waits")
    },
    "agentgym/rollout/workers/local.py": _ROLLOUT,
    "agentgym/rollout/workers/pool.py": ("tests/rollout/test_sharing.py", *_ROLLOUT),
    "agentgym/eval/statistics.py": (
        "tests/eval/test_statistics_edges.py",
        "tests/eval/test_statistics.py",
        "tests/eval/test_statistics_reference.py",
    ),
    "agentgym/eval/measures.py": ("tests/core/test_calibration.py", "tests/eval/test_summary.py"),
    "agentgym/base/errors.py": ("tests/core/test_mistakes.py",),
    "agentgym/base/strict_json.py": (
        "tests/core/test_strict_json.py",
        "tests/core/test_dialects.py",
        "tests/core/test_dialects_malformed.py",
    ),
    "agentgym/eval/summary.py": ("tests/eval/test_summary.py", "tests/eval/test_evaluation.py"),
    "agentgym/core/task.py": ("tests/core/test_task.py",),
    "agentgym/core/toolset.py": ("tests/core/test_toolset.py",),
    "agentgym/core/trajectory.py": _RECORDS,
    "envs/code/answers.py": _CODE,
    "envs/code/canaries.py": (
        "tests/envs/code/test_forms.py",
        "tests/envs/code/test_canaries.py",
        "tests/envs/code/test_leaks.py",
    ),
    "envs/code/grading.py": _CODE,
    "envs/code/verdict.py": ("tests/envs/code/test_matching.py", "tests/envs/code/test_grading.py"),
    "envs/code/replay.py": _CODE,
    "envs/code/options.py": ("tests/envs/code/test_schemes.py", "tests/envs/code/test_rewards.py"),
    "envs/search/answers.py": _SEARCH,
    "envs/search/deciding.py": _SEARCH_MODES,
    "envs/search/judging.py": _SEARCH_MODES,
    "envs/search/ledger.py": _SEARCH,
    "envs/search/options.py": _SEARCH_PAY,
    "envs/search/env.py": _SEARCH_PAY,
    "envs/sql/grading.py": _SQL,
    "envs/sql/references.py": ("tests/envs/sql/test_linking.py",),
    "envs/sql/swaps.py": ("tests/envs/sql/test_ties.py", "tests/envs/sql/test_grading.py"),
    "envs/sql/ties.py": ("tests/envs/sql/test_ties.py", "tests/envs/sql/test_grading.py"),
    **{f"envs/swe/{name}.py": _SWE for name in ("disguise", "notes", "perturb", "stand_in", "withholding")},
    "envs/swe/inside.py": (*_SWE_HACKS, "tests/envs/swe/test_env.py"),
    "envs/swe/judge.py": _SWE_HACKS,
    "envs/swe/remembered.py": ("tests/envs/swe/test_remembered.py",),
    "envs/swe/by_log.py": ("tests/envs/swe/test_by_log.py",),
    "envs/swe/calibration.py": ("tests/envs/swe/test_withheld_calibration.py", *_SWE_CALIBRATED),
    "envs/swe/draws.py": ("tests/envs/swe/test_draws.py", "tests/envs/swe/test_grading.py"),
    "envs/swe/expectations.py": ("tests/envs/swe/test_expectations.py", *_SWE),
    "envs/swe/forms.py": ("tests/envs/swe/test_judge.py", *_SWE),
    "envs/swe/grading.py": ("tests/envs/swe/test_verdict.py", *_SWE, "tests/envs/swe/test_calibration.py"),
    "envs/swe/ids.py": ("tests/envs/swe/test_judge.py", "tests/envs/swe/test_grading.py"),
    "envs/swe/repository.py": ("tests/envs/swe/test_grading.py", "tests/envs/swe/test_calibration.py"),
    "envs/swe/options.py": ("tests/envs/swe/test_schemes.py",),
    "envs/swe/values.py": ("tests/envs/swe/test_values.py", "tests/envs/swe/test_grading.py"),
    "envs/web/env.py": ("tests/envs/web/test_plans.py",),
    "trainers/batches.py": ("tests/trainers/test_batches_refill.py", "tests/trainers/test_batches.py"),
    "trainers/chat.py": ("tests/trainers/test_chat_codec.py",),
    "trainers/credit.py": ("tests/trainers/test_credit_numbers.py", "tests/trainers/test_credit.py"),
    "trainers/kl.py": ("tests/trainers/test_kl.py",),
    "trainers/logbook/metrics.py": ("tests/trainers/test_logbook_metrics.py",),
}
