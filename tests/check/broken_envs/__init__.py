"""Environments that each break one promise, by kind of fault. Tests use `tests.check.broken_envs:NAME`."""

from tests.check.broken_envs.answering import *  # noqa: F403
from tests.check.broken_envs.grading import *  # noqa: F403
from tests.check.broken_envs.guessing import *  # noqa: F403
from tests.check.broken_envs.living import *  # noqa: F403
from tests.check.broken_envs.paying import *  # noqa: F403
from tests.check.broken_envs.seeding import *  # noqa: F403
from tests.check.broken_envs.tasks import *  # noqa: F403
