"""Cards: Markdown pages about environments, made from their classes and from episodes played now (`agentgym cards`)."""

from agentgym.cards.card import card, overview
from agentgym.cards.speeds import read_speeds
from agentgym.cards.subject import CardSubject, subjects

__all__ = ["CardSubject", "card", "overview", "read_speeds", "subjects"]
