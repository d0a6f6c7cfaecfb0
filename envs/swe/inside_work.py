"""Runs tests inside the agent's own sandbox, on its request. Sent as text; needs only pytest.

It finds the same modules in the same order as the grader's runs (`inside`), but nothing that it prints is trusted.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    """Run pytest with the arguments from stdin."""
    request = json.loads(sys.stdin.buffer.read())
    root, folder = os.getcwd(), request["pytest"]
    sys.path[:] = [entry for entry in sys.path if entry and os.path.abspath(entry) != root]
    sys.path.append(folder)
    # A pytest that was imported before this process began may have been imported from elsewhere.
    names = {name.partition(".")[0] for name in os.listdir(folder)}
    for name, module in list(sys.modules.items()):
        if hasattr(module, "__path__") and name.partition(".")[0] in names:
            module.__path__ = [os.path.join(folder, *name.split("."))]
    sys.path.extend(os.path.normpath(os.path.join(root, entry)) for entry in request["python_path"])
    sys.argv[:], sys.dont_write_bytecode = ["pytest"], True
    import pytest

    sys.exit(int(pytest.main(request["arguments"])))


if __name__ == "__main__":
    main()
