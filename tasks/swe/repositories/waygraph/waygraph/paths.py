"""Shortest paths."""

import heapq
from itertools import count

from waygraph.graph import GraphError


class NoPathError(GraphError):
    """There is no way from one node to the other."""


def distances(graph, source, *, limit=None):
    """Return the distance from a node to all that can be reached, none farther than `limit`."""
    found, _ = _search(graph, source, limit=limit)
    return found


def shortest_path(graph, source, target):
    """Return the nodes of a shortest path and its length. Raises `NoPathError`."""
    if target not in graph:
        raise GraphError(f"no node {target!r}")
    found, before = _search(graph, source, target=target)
    if target not in found:
        raise NoPathError(f"no way from {source!r} to {target!r}")
    return _walk_back(before, target), found[target]


def shortest_path_avoiding(graph, source, target, avoid):
    """Return a shortest path that does not pass the nodes of `avoid`, and its length."""
    blocked = set(avoid) - {source, target}
    part = graph.subgraph(node for node in graph.nodes if node not in blocked)
    return shortest_path(part, source, target)


def _search(graph, source, *, target=None, limit=None):
    """Dijkstra's algorithm: distances, and the node before each on a shortest path."""
    if source not in graph:
        raise GraphError(f"no node {source!r}")
    found = {}
    before = {source: None}
    tentative = {source: 0}
    tie = count()
    queue = [(0, next(tie), source)]
    while queue:
        distance, _, node = heapq.heappop(queue)
        if node in found:
            continue
        found[node] = distance
        if node == target:
            break
        for other, weight in graph.neighbours(node).items():
            if weight < 0:
                raise GraphError(f"edge from {node!r} to {other!r} has a negative weight")
            reached = distance + weight
            if limit is not None and reached > limit:
                continue
            if other not in tentative or reached < tentative[other]:
                tentative[other] = reached
                before[other] = node
                heapq.heappush(queue, (reached, next(tie), other))
    return found, before


def _walk_back(before, target):
    path = [target]
    while before[path[-1]] is not None:
        path.append(before[path[-1]])
    path.reverse()
    return path
