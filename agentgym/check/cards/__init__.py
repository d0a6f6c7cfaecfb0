"""Cards: Markdown pages about environments, made from their classes and from episodes played now (`agentgym cards`)."""

from agentgym.check.cards.card import card, is_card, overview, read_speeds
from agentgym.check.cards.play import CardSubject, subjects

__all__ = ["CardSubject", "card", "is_card", "overview", "read_speeds", "subjects"]
