"""Environments that each break one promise, in a module for each kind of fault. The checks must find which.

Tests name them as `tests.broken_envs:NAME`.
"""

from tests.broken_envs.answering import *  # noqa: F403
from tests.broken_envs.gold import *  # noqa: F403
from tests.broken_envs.grading import *  # noqa: F403
from tests.broken_envs.living import *  # noqa: F403
from tests.broken_envs.paying import *  # noqa: F403
from tests.broken_envs.seeding import *  # noqa: F403
from tests.broken_envs.tasks import *  # noqa: F403
