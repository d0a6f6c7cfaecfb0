"""The trusted program inside every sandbox: standard library only, Python 3.9 and newer, no imports from the core.

Inside a sandbox, it is never imported from disk: `agentgym.tools.sandbox.bundle` sends these modules as one text.
"""
