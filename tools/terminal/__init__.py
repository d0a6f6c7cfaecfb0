"""Containers used as machines: built from a Dockerfile, worked on in a shell, with processes that keep running.

A sandbox (`agentgym.tools.sandbox`) ends everything that a run started. Here a server that a command started is still
there for the next one, as on a real machine.
"""

from agentgym.tools.terminal.building import build_image, image_workdir
from agentgym.tools.terminal.machine import Machine, MachineLost, MachineSpec
from agentgym.tools.terminal.shell import CommandOutput, Shell

__all__ = ["CommandOutput", "Machine", "MachineLost", "MachineSpec", "Shell", "build_image", "image_workdir"]
