"""Cards: Markdown pages about environments, made from their classes and from episodes played now (`agentgym cards`)."""

from agentgym.check.cards.card import card, overview, read_speeds
from agentgym.check.cards.play import CardSubject, subjects

__all__ = ["CardSubject", "card", "overview", "read_speeds", "subjects"]
