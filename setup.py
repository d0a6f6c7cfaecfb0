"""Lists the packages: those in `agentgym/`, and the four top-level folders that are imported as `agentgym.<folder>`."""

from setuptools import find_packages, setup

FOLDERS = ("envs", "tasks", "tools", "trainers")

own = find_packages(include=["agentgym", "agentgym.*"], exclude=[f"agentgym.{name}*" for name in FOLDERS])
mapped = find_packages(include=[pattern for name in FOLDERS for pattern in (name, f"{name}.*")])
setup(packages=[*own, *(f"agentgym.{name}" for name in mapped)])
