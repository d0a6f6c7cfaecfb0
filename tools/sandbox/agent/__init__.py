"""The trusted program inside every sandbox: standard library only, Python 3.9 and newer, nothing of agentgym's core.

It is never imported from disk on the other side: `agentgym.tools.sandbox.bundle` sends these modules as one text.
"""
