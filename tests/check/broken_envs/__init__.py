"""Environments that each break one promise, in a module for each kind of fault. The checks must find which.

Tests name them as `tests.check.broken_envs:NAME`.
"""

from tests.check.broken_envs.answering import *  # noqa: F403
from tests.check.broken_envs.grading import *  # noqa: F403
from tests.check.broken_envs.living import *  # noqa: F403
from tests.check.broken_envs.paying import *  # noqa: F403
from tests.check.broken_envs.seeding import *  # noqa: F403
from tests.check.broken_envs.tasks import *  # noqa: F403
