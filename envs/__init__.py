"""The environments: each is tools, tasks and reward channels put together.

Importing this package makes their ids known to Gymnasium.
"""

import agentgym.registry as _registry  # noqa: F401 (registers the ids)
