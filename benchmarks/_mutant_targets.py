"""The files that get faults, and the tests that should notice: those named after what the file does."""

from __future__ import annotations

_ROLLOUT = (
    "tests/test_rollout_bounds.py",
    "tests/test_rollout.py",
    "tests/test_rollout_tokens.py",
    "tests/test_rollout_foreign.py",
)
_DIALECTS = (
    "tests/core/test_dialects.py",
    "tests/core/test_dialects_malformed.py",
    "tests/core/test_dialects_template.py",
)
_ENV = (
    "tests/test_rollout_bounds.py",
    "tests/core/test_env.py",
    "tests/core/test_env_async.py",
    "tests/core/test_talking.py",
)
_SQL = ("tests/test_sql_grading_bounds.py", "tests/test_sql_grading_partial.py", "tests/test_sql_grading.py")
_CHECKS = ("tests/check/test_broken.py", "tests/check/test_runs.py")
_PAY = ("tests/check/test_pay.py", "tests/check/test_honest.py", *_CHECKS)
_SEARCH = ("tests/test_search_grading.py",)
_SEARCH_MODES = (*_SEARCH, "tests/test_search_env.py", "tests/test_search_modes.py")
_SEARCH_PAY = ("tests/test_search_grading.py", "tests/test_search_rewards.py")
_CODE = ("tests/test_code_matching_bounds.py", "tests/test_code_leaks.py", "tests/test_code_grading.py")
_SWE = ("tests/test_swe_grading.py", "tests/test_swe_withholding.py")
_SWE_CALIBRATED = ("tests/test_swe_calibrated.py", "tests/test_swe_calibration.py")
_SWE_HACKS = ("tests/test_swe_judge.py", "tests/test_swe_grading.py", "tests/test_swe_hacks.py")
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
    "agentgym/engine/answers.py": ("tests/test_answers.py",),
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
    "agentgym/evaluation.py": ("tests/test_evaluation_seeds.py", "tests/test_evaluation.py"),
    "agentgym/history.py": ("tests/core/test_history.py",),
    "agentgym/records/json_lines.py": _RECORDS,
    "agentgym/messages.py": ("tests/core/test_messages.py", "tests/test_pictures.py"),
    "agentgym/procedural/families.py": ("tests/test_procedural.py",),
    "agentgym/procedural/family.py": ("tests/test_procedural.py",),
    "agentgym/procedural/scene.py": ("tests/test_procedural.py",),
    "agentgym/procedural/source.py": ("tests/test_procedural.py",),
    "agentgym/procedural/splits.py": ("tests/test_procedural.py",),
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
            "tests/test_statistics_edges.py",
            "tests/test_statistics.py",
            "tests/test_statistics_reference.py",
        )
        for name in ("calibration", "decisions", "intervals", "over_k", "pairs", "seeds")
    },
    **{f"agentgym/comparison/{name}.py": ("tests/test_comparison.py",) for name in ("pairs", "runs", "seeds")},
    "agentgym/calibration.py": ("tests/core/test_calibration.py",),
    "agentgym/measures.py": ("tests/test_summary.py",),
    "agentgym/mistakes.py": ("tests/core/test_mistakes.py",),
    "agentgym/engine/steps.py": ("tests/test_answers.py", *_ENV),
    "agentgym/records/strict_json.py": (
        "tests/core/test_strict_json.py",
        "tests/core/test_dialects.py",
        "tests/core/test_dialects_malformed.py",
    ),
    **{
        f"agentgym/summary/{name}.py": ("tests/test_summary.py", "tests/test_evaluation.py")
        for name in ("results", "tables")
    },
    "agentgym/task.py": ("tests/test_task_edges.py", "tests/test_task.py"),
    "agentgym/toolset.py": ("tests/core/test_toolset.py",),
    "agentgym/trajectory.py": _RECORDS,
    "envs/code/answers.py": _CODE,
    "envs/code/canaries.py": ("tests/test_code_canaries.py", "tests/test_code_leaks.py"),
    "envs/code/grading.py": _CODE,
    "envs/code/matching.py": ("tests/test_code_matching_bounds.py", "tests/test_code_matching.py"),
    "envs/code/replay.py": _CODE,
    "envs/code/schemes.py": ("tests/test_code_rewards.py",),
    "envs/code/verdict.py": ("tests/test_code_matching_bounds.py", "tests/test_code_grading.py"),
    "envs/code/withheld.py": ("tests/test_code_canaries.py",),
    "envs/search/answers.py": _SEARCH,
    "envs/search/deciding.py": _SEARCH_MODES,
    "envs/search/judging.py": _SEARCH_MODES,
    "envs/search/ledger.py": _SEARCH,
    "envs/search/schemes.py": _SEARCH_PAY,
    "envs/search/verdict.py": _SEARCH_PAY,
    "envs/sql/cells.py": _SQL,
    "envs/sql/grading.py": _SQL,
    "envs/sql/linking.py": ("tests/test_sql_grading_partial.py",),
    "envs/sql/swaps.py": ("tests/test_sql_grading_ties.py", "tests/test_sql_grading_bounds.py"),
    "envs/sql/ties.py": ("tests/test_sql_grading_ties.py", "tests/test_sql_grading_bounds.py"),
    **{f"envs/swe/{name}.py": ("tests/test_swe_grading.py",) for name in ("filtering", "records")},
    **{f"envs/swe/{name}.py": _SWE for name in ("disguise", "notes", "perturb", "stand_in", "withholding")},
    "envs/swe/inside.py": (*_SWE_HACKS, "tests/test_swe_env.py"),
    "envs/swe/judge.py": _SWE_HACKS,
    **{f"envs/swe/{name}.py": ("tests/test_swe_remembered.py",) for name in ("remembered", "verdicts")},
    "envs/swe/by_log.py": ("tests/test_swe_by_log.py",),
    "envs/swe/calibration.py": _SWE_CALIBRATED,
    "envs/swe/draws.py": ("tests/test_swe_draws.py", "tests/test_swe_grading.py"),
    "envs/swe/expectations.py": ("tests/test_swe_expectations.py", *_SWE),
    "envs/swe/forms.py": ("tests/test_swe_judge.py", *_SWE),
    "envs/swe/grading.py": ("tests/test_swe_verdict.py", *_SWE, "tests/test_swe_calibration.py"),
    "envs/swe/ids.py": ("tests/test_swe_judge.py", "tests/test_swe_grading.py"),
    "envs/swe/repository.py": ("tests/test_swe_grading.py", "tests/test_swe_calibration.py"),
    "envs/swe/schemes.py": ("tests/test_swe_schemes.py",),
    "envs/swe/values.py": ("tests/test_swe_values.py", "tests/test_swe_grading.py"),
    "envs/swe/withheld_calibration.py": ("tests/test_swe_withheld_calibration.py", *_SWE_CALIBRATED),
    "envs/web/grading.py": ("tests/test_web_plans.py", "tests/test_web_tasks.py"),
    "trainers/batches.py": ("tests/trainers/test_batches_refill.py", "tests/trainers/test_batches.py"),
    "trainers/chat.py": ("tests/trainers/test_chat_codec.py",),
    "trainers/credit.py": ("tests/trainers/test_credit_numbers.py", "tests/trainers/test_credit.py"),
    "trainers/kl.py": ("tests/trainers/test_logbook_metrics.py",),
    "trainers/logbook/metrics.py": ("tests/trainers/test_logbook_metrics.py",),
}
