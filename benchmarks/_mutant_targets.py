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
        f"agentgym/checks/{name}.py": _CHECKS
        for name in ("contract", "grading", "lifecycle", "runner", "seeding", "tasks", "tools")
    },
    **{f"agentgym/checks/{name}.py": _PAY for name in ("adversaries", "contest", "honest", "pay")},
    **{f"agentgym/checks/{name}.py": ("tests/check/test_splits.py", *_CHECKS) for name in ("sample", "splits")},
    **{
        f"agentgym/checks/{name}.py": ("tests/check/test_processes.py", *_CHECKS)
        for name in ("luck", "stumble", "work")
    },
    "agentgym/checks/gold.py": ("tests/check/test_gold.py", *_CHECKS),
    "agentgym/checks/hostile.py": ("tests/check/test_hostile.py", *_CHECKS),
    "agentgym/checks/subject.py": ("tests/check/test_subject.py", *_CHECKS),
    "agentgym/checks/play.py": ("tests/check/test_play.py", *_CHECKS),
    "agentgym/engine/answers.py": ("tests/core/test_answers.py",),
    "agentgym/dialects/compact.py": _DIALECTS,
    "agentgym/dialects/families.py": _DIALECTS,
    "agentgym/dialects/fenced.py": _DIALECTS,
    "agentgym/dialects/hermes.py": _DIALECTS,
    "agentgym/dialects/tags.py": _DIALECTS,
    "agentgym/dialects/template.py": _DIALECTS,
    "agentgym/dialects/text.py": _DIALECTS,
    "agentgym/engine/authoring.py": _ENV,
    "agentgym/engine/playing.py": _ENV,
    "agentgym/env.py": _ENV,
    "agentgym/engine/threads.py": ("tests/core/test_threads.py", *_ROLLOUT),
    "agentgym/evaluation.py": ("tests/eval/test_evaluation_seeds.py", "tests/eval/test_evaluation.py"),
    "agentgym/history.py": ("tests/core/test_history.py",),
    "agentgym/records/json_lines.py": _RECORDS,
    "agentgym/messages.py": ("tests/core/test_messages.py", "tests/core/test_pictures.py"),
    "agentgym/procedural/families.py": ("tests/core/test_procedural.py", "tests/tasks/test_generated.py"),
    "agentgym/procedural/family.py": ("tests/core/test_procedural.py", "tests/tasks/test_generated.py"),
    "agentgym/procedural/scene.py": ("tests/core/test_procedural.py", "tests/tasks/test_generated.py"),
    "agentgym/procedural/source.py": ("tests/core/test_procedural.py", "tests/tasks/test_generated.py"),
    "agentgym/procedural/splits.py": ("tests/core/test_procedural.py", "tests/tasks/test_generated.py"),
    "agentgym/records/fields.py": ("tests/core/test_record_fields.py", *_RECORDS),
    "agentgym/rewards.py": ("tests/core/test_rewards_lint.py", "tests/core/test_rewards.py"),
    **{
        f"agentgym/rollout/{name}.py": _ROLLOUT
        for name in ("deadlines", "engine", "episode", "failures", "jobs", "limits", "streams", "waits")
    },
    "agentgym/rollout/workers/local.py": _ROLLOUT,
    "agentgym/rollout/workers/pool.py": ("tests/rollout/test_sharing.py", *_ROLLOUT),
    **{
        f"agentgym/statistics/{name}.py": (
            "tests/eval/test_statistics_edges.py",
            "tests/eval/test_statistics.py",
            "tests/eval/test_statistics_reference.py",
        )
        for name in ("calibration", "decisions", "intervals", "over_k", "pairs", "seeds")
    },
    "agentgym/calibration.py": ("tests/core/test_calibration.py",),
    "agentgym/measures.py": ("tests/eval/test_summary.py",),
    "agentgym/mistakes.py": ("tests/core/test_mistakes.py",),
    "agentgym/engine/steps.py": ("tests/core/test_answers.py", *_ENV),
    "agentgym/records/strict_json.py": (
        "tests/core/test_strict_json.py",
        "tests/core/test_dialects.py",
        "tests/core/test_dialects_malformed.py",
    ),
    **{
        f"agentgym/summary/{name}.py": ("tests/eval/test_summary.py", "tests/eval/test_evaluation.py")
        for name in ("results", "tables")
    },
    "agentgym/task.py": ("tests/core/test_task.py",),
    "agentgym/toolset.py": ("tests/core/test_toolset.py",),
    "agentgym/trajectory.py": _RECORDS,
    "envs/code/answers.py": _CODE,
    "envs/code/canaries.py": (
        "tests/envs/code/test_forms.py",
        "tests/envs/code/test_canaries.py",
        "tests/envs/code/test_leaks.py",
    ),
    "envs/code/grading.py": _CODE,
    "envs/code/matching.py": ("tests/envs/code/test_matching.py",),
    "envs/code/replay.py": _CODE,
    "envs/code/schemes.py": ("tests/envs/code/test_schemes.py", "tests/envs/code/test_rewards.py"),
    "envs/code/verdict.py": ("tests/envs/code/test_matching.py", "tests/envs/code/test_grading.py"),
    "envs/code/withheld.py": ("tests/envs/code/test_forms.py", "tests/envs/code/test_canaries.py"),
    "envs/search/answers.py": _SEARCH,
    "envs/search/deciding.py": _SEARCH_MODES,
    "envs/search/judging.py": _SEARCH_MODES,
    "envs/search/ledger.py": _SEARCH,
    "envs/search/schemes.py": _SEARCH_PAY,
    "envs/search/verdict.py": _SEARCH_PAY,
    "envs/sql/cells.py": _SQL,
    "envs/sql/grading.py": _SQL,
    "envs/sql/linking.py": ("tests/envs/sql/test_linking.py",),
    "envs/sql/swaps.py": ("tests/envs/sql/test_ties.py", "tests/envs/sql/test_grading.py"),
    "envs/sql/ties.py": ("tests/envs/sql/test_ties.py", "tests/envs/sql/test_grading.py"),
    **{f"envs/swe/{name}.py": _SWE for name in ("disguise", "notes", "perturb", "stand_in", "withholding")},
    "envs/swe/inside.py": (*_SWE_HACKS, "tests/envs/swe/test_env.py"),
    "envs/swe/judge.py": _SWE_HACKS,
    **{f"envs/swe/{name}.py": ("tests/envs/swe/test_remembered.py",) for name in ("remembered", "verdicts")},
    "envs/swe/by_log.py": ("tests/envs/swe/test_by_log.py",),
    "envs/swe/calibration.py": _SWE_CALIBRATED,
    "envs/swe/draws.py": ("tests/envs/swe/test_draws.py", "tests/envs/swe/test_grading.py"),
    "envs/swe/expectations.py": ("tests/envs/swe/test_expectations.py", *_SWE),
    "envs/swe/forms.py": ("tests/envs/swe/test_judge.py", *_SWE),
    "envs/swe/grading.py": ("tests/envs/swe/test_verdict.py", *_SWE, "tests/envs/swe/test_calibration.py"),
    "envs/swe/ids.py": ("tests/envs/swe/test_judge.py", "tests/envs/swe/test_grading.py"),
    "envs/swe/repository.py": ("tests/envs/swe/test_grading.py", "tests/envs/swe/test_calibration.py"),
    "envs/swe/schemes.py": ("tests/envs/swe/test_schemes.py",),
    "envs/swe/values.py": ("tests/envs/swe/test_values.py", "tests/envs/swe/test_grading.py"),
    "envs/swe/withheld_calibration.py": ("tests/envs/swe/test_withheld_calibration.py", *_SWE_CALIBRATED),
    "envs/web/grading.py": ("tests/envs/web/test_plans.py",),
    "trainers/batches.py": ("tests/trainers/test_batches_refill.py", "tests/trainers/test_batches.py"),
    "trainers/chat.py": ("tests/trainers/test_chat_codec.py",),
    "trainers/credit.py": ("tests/trainers/test_credit_numbers.py", "tests/trainers/test_credit.py"),
    "trainers/kl.py": ("tests/trainers/test_kl.py",),
    "trainers/logbook/metrics.py": ("tests/trainers/test_logbook_metrics.py",),
}
