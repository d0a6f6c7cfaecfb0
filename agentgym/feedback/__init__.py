"""Feedback in plain language at evaluation, by a simulated user (MINT, arXiv 2309.10691).

evaluate(factory, policy, tasks, feedback=WithFeedback(ScriptedUser()))
"""

from agentgym.feedback.model import ModelUser
from agentgym.feedback.scene import FeedbackContext
from agentgym.feedback.scripted import ScriptedUser
from agentgym.feedback.simulator import Remark, Simulator
from agentgym.feedback.typed import read_feedback
from agentgym.feedback.with_feedback import WithFeedback

__all__ = ["FeedbackContext", "ModelUser", "Remark", "ScriptedUser", "Simulator", "WithFeedback", "read_feedback"]
