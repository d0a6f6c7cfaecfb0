"""Searches at evaluation: best-of-n, beam search and tree search around any policy, with honest values and their cost.

evaluate(factory, policy, tasks, search=Search(BestOfN(8), Majority()))
"""

from agentgym.lookahead.cost import Cost
from agentgym.lookahead.explorer import Explorer
from agentgym.lookahead.line import Candidate, Line
from agentgym.lookahead.search import Search, read_search
from agentgym.lookahead.strategies import Beam, BestOfN, Mcts, Strategy
from agentgym.lookahead.values import Asking, Judge, Majority, Oracle, Signals, Value

__all__ = [
    "Asking",
    "Beam",
    "BestOfN",
    "Candidate",
    "Cost",
    "Explorer",
    "Judge",
    "Line",
    "Majority",
    "Mcts",
    "Oracle",
    "Search",
    "Signals",
    "Strategy",
    "Value",
    "read_search",
]
