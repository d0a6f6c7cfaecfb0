"""Searches at evaluation: best-of-n, beam search and tree search around any policy, with honest values and their cost.

evaluate(factory, policy, tasks, search=Search(BestOfN(8), Majority()))
"""

from agentgym.rollout.lookahead.cost import SearchCost
from agentgym.rollout.lookahead.explorer import Explorer
from agentgym.rollout.lookahead.line import Candidate, PlayLine
from agentgym.rollout.lookahead.search import Search, read_search
from agentgym.rollout.lookahead.strategies import Beam, BestOfN, Mcts, Strategy
from agentgym.rollout.lookahead.values import Asking, Judge, Majority, Oracle, Signals, Value

__all__ = [
    "Asking",
    "Beam",
    "BestOfN",
    "Candidate",
    "Explorer",
    "Judge",
    "Majority",
    "Mcts",
    "Oracle",
    "PlayLine",
    "Search",
    "SearchCost",
    "Signals",
    "Strategy",
    "Value",
    "read_search",
]
