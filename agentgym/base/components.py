"""Import paths of the parts of the other top-level packages that the core uses; `agentgym.base.loading` imports them on
demand."""

from __future__ import annotations

CATALOG = "agentgym.envs.catalog:ENVIRONMENTS"
"""The bundled environments: maps an id to the path of its class and the arguments that the id implies."""

CATALOG_ON_FILES = "agentgym.envs.catalog:ON_FILES"
"""The same for environments whose tasks come only from the user's files or packages."""

SUITES = "agentgym.tasks:SUITES"
"""The folder of the bundled suites."""

ENVIRONMENTS, RESULTS, TRAINING, MACHINE = "Environments and tasks", "Evaluation", "Training", "This machine"
"""Headings of the commands in the help."""

COMMANDS = {
    "train": ("agentgym.trainers.command:app", "Train a policy with trajectory-level GRPO.", TRAINING),
    "gateway": (
        "agentgym.interop.served.gateway_command:gateway",
        "Serve a model to agents as an OpenAI-compatible endpoint, and record their tokens as trajectories.",
        TRAINING,
    ),
    "doctor": (
        "agentgym.tools.doctor.command:doctor",
        "Report what this machine offers and what is missing. Exits with 1 if no sandbox can contain untrusted code.",
        MACHINE,
    ),
    "index": (
        "agentgym.tools.index.command:index_app",
        "Build a search index of documents, search it and show documents.",
        MACHINE,
    ),
    "serve": ("agentgym.tools.serving.command:serve_app", "Serve resources of this machine over HTTP.", MACHINE),
}
"""Commands defined in other packages: the path of a function or a Typer app, its help, and its heading."""

TASK_BUILDERS = {"swe": ("agentgym.envs.swe.building.cli:build", "Make bug-fixing tasks of Python packages.")}
"""The commands `agentgym tasks build KIND`, by kind: path and help."""
HARBOR_EXPORT = "agentgym.tasks.exporting.export:export_harbor"
"""Writes tasks as Harbor task folders."""

ENVIRONMENT_PACKAGES = ("agentgym.envs", "agentgym.tasks", "agentgym.tools")
"""The packages that environments are built from."""
POLICIES = "agentgym.trainers.policies:load"
"""Loads policies with weights."""
ENDPOINT = "agentgym.trainers.endpoint.policy:load"
"""Makes policies behind chat endpoints."""
VLLM = "agentgym.trainers.vllm.loading:load"
"""Loads policies with weights that vLLM samples from."""
TRAINING_ARGUMENTS = "agentgym.trainers.policies:training_arguments"
"""Reads from a trained model the arguments of the environment it was trained in."""
TEMPLATE_DIALECT = "agentgym.trainers.template_dialect:load"
"""Builds the dialect of a model's own chat template."""
TEMPLATE_DIALECT_NAME = "agentgym.trainers.template_dialect:name_of"
"""Returns the name of that dialect for a model."""
ADVANTAGES = "agentgym.trainers.credit:advantages_by_mode"
"""Computes the advantages of a group of trajectories."""
SERVE_LOCALLY = "agentgym.tools.serving.running:serve_locally"
"""Serves an application to this machine."""
READ_TOKEN = "agentgym.tools.serving.command:read_token"
"""Reads the token of a server from a file, or makes one."""
