"""Orders of directed graphs without cycles."""

from collections import deque

from waygraph.graph import GraphError


class CycleError(GraphError):
    """The graph has a cycle, which is told in `cycle`."""

    def __init__(self, cycle):
        super().__init__("cycle: " + " -> ".join(str(node) for node in [*cycle, cycle[0]]))
        self.cycle = cycle


def topological_order(graph):
    """Return the nodes so that all edges point forwards; nodes keep their order where they may."""
    return [node for layer in layers(graph) for node in layer]


def layers(graph):
    """Return lists of nodes: each has its predecessors in earlier lists, and is as early as that allows."""
    if not graph.directed:
        raise GraphError("only directed graphs have an order")
    waiting = {node: len(graph.predecessors(node)) for node in graph.nodes}
    current = [node for node in graph.nodes if waiting[node] == 0]
    done = []
    placed = 0
    while current:
        done.append(current)
        placed += len(current)
        following = []
        for node in current:
            for other in graph.neighbours(node):
                waiting[other] -= 1
                if waiting[other] == 0:
                    following.append(other)
        current = following
    if placed < len(graph):
        raise CycleError(find_cycle(graph))
    return done


def find_cycle(graph):
    """Return the nodes of a cycle of a directed graph in order, or `None` if there is none."""
    waiting = {node: len(graph.predecessors(node)) for node in graph.nodes}
    free = deque(node for node in graph.nodes if waiting[node] == 0)
    while free:
        for other in graph.neighbours(free.popleft()):
            waiting[other] -= 1
            if waiting[other] == 0:
                free.append(other)
    left = [node for node in graph.nodes if waiting[node] > 0]
    if not left:
        return None
    # Every node that is left has a predecessor that is left: going back must meet a node again.
    path = [left[0]]
    while True:
        previous = next(node for node in graph.predecessors(path[-1]) if waiting[node] > 0)
        if previous in path:
            cycle = path[path.index(previous) :]
            cycle.reverse()
            return cycle
        path.append(previous)
