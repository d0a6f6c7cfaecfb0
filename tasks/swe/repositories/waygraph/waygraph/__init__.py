"""Graphs and algorithms on them."""

from waygraph.components import UnionFind, connected_components, is_bipartite, strong_components
from waygraph.graph import Graph, GraphError
from waygraph.ordering import CycleError, find_cycle, layers, topological_order
from waygraph.paths import NoPathError, distances, shortest_path, shortest_path_avoiding
from waygraph.trees import spanning_tree, tree_weight

__all__ = [
    "CycleError",
    "Graph",
    "GraphError",
    "NoPathError",
    "UnionFind",
    "connected_components",
    "distances",
    "find_cycle",
    "is_bipartite",
    "layers",
    "shortest_path",
    "shortest_path_avoiding",
    "spanning_tree",
    "strong_components",
    "topological_order",
    "tree_weight",
]
__version__ = "1.1.3"
