"""Searches at evaluation: best-of-n, beam search and tree search around any policy, with honest values and their cost.

evaluate(factory, policy, tasks, search=Search(BestOfN(8), Majority()))
"""

from agentgym.lookahead.beam import Beam
from agentgym.lookahead.best_of_n import BestOfN
from agentgym.lookahead.candidate import Candidate
from agentgym.lookahead.cost import Cost
from agentgym.lookahead.explorer import Explorer
from agentgym.lookahead.judge import Judge
from agentgym.lookahead.line import Line
from agentgym.lookahead.majority import Majority
from agentgym.lookahead.mcts import Mcts
from agentgym.lookahead.oracle import Oracle
from agentgym.lookahead.search import Search
from agentgym.lookahead.signals import Signals
from agentgym.lookahead.strategy import Strategy
from agentgym.lookahead.typed import read_search
from agentgym.lookahead.value import Asking, Value

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
