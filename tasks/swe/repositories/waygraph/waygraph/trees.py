"""Spanning trees."""

from waygraph.components import UnionFind
from waygraph.graph import Graph, GraphError


def spanning_tree(graph, *, largest=False):
    """Return the spanning tree, or forest, of least weight; of most weight if `largest`."""
    if graph.directed:
        raise GraphError("only undirected graphs have spanning trees")
    tree = Graph()
    for node in graph.nodes:
        tree.add_node(node)
    sets = UnionFind(graph.nodes)
    for source, target, weight in sorted(graph.edges(), key=lambda edge: edge[2], reverse=largest):
        if sets.join(source, target):
            tree.add_edge(source, target, weight)
    return tree


def tree_weight(graph):
    """Return the sum of the weights of all edges."""
    return sum(weight for _, _, weight in graph.edges())
