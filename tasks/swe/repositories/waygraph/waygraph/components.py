"""What hangs together."""

from waygraph.graph import GraphError


class UnionFind:
    """Disjoint sets that can be joined."""

    def __init__(self, items=()):
        self._parent = {}
        self._size = {}
        for item in items:
            self.add(item)

    def add(self, item):
        """Add a set with one item; nothing happens if the item is there."""
        if item not in self._parent:
            self._parent[item] = item
            self._size[item] = 1

    def find(self, item):
        """Return the item that stands for the set."""
        root = item
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[item] != root:
            self._parent[item], item = root, self._parent[item]
        return root

    def join(self, one, two):
        """Join the sets of two items. Returns whether they were apart."""
        first, second = self.find(one), self.find(two)
        if first == second:
            return False
        if self._size[first] < self._size[second]:
            first, second = second, first
        self._parent[second] = first
        self._size[first] += self._size[second]
        return True

    def size(self, item):
        """Return how many items are in the set of an item."""
        return self._size[self.find(item)]

    def groups(self):
        """Return the sets as lists, in the order in which items were added."""
        found = {}
        for item in self._parent:
            found.setdefault(self.find(item), []).append(item)
        return list(found.values())


def connected_components(graph):
    """Return lists of nodes between which there is a way, directions ignored."""
    sets = UnionFind(graph.nodes)
    for source, target, _ in graph.edges():
        sets.join(source, target)
    return sets.groups()


def strong_components(graph):
    """Return lists of nodes that can each be reached from each other, in the order of the nodes."""
    if not graph.directed:
        return connected_components(graph)
    finished = []
    seen = set()
    for node in graph.nodes:
        if node not in seen:
            finished += _finish_order(graph, node, seen)
    turned = graph.reversed()
    seen = set()
    parts = []
    for node in reversed(finished):
        if node not in seen:
            parts.append(_finish_order(turned, node, seen))
    position = {node: index for index, node in enumerate(graph.nodes)}
    parts = [sorted(part, key=position.__getitem__) for part in parts]
    return sorted(parts, key=lambda part: position[part[0]])


def is_bipartite(graph):
    """Return two lists of nodes with edges only between them, or `None` if that cannot be."""
    side = {}
    for start in graph.nodes:
        if start in side:
            continue
        side[start] = 0
        waiting = [start]
        while waiting:
            node = waiting.pop()
            for other in {**graph.neighbours(node), **graph.predecessors(node)}:
                if other not in side:
                    side[other] = 1 - side[node]
                    waiting.append(other)
                elif side[other] == side[node]:
                    return None
    return [node for node in side if side[node] == 0], [node for node in side if side[node] == 1]


def _finish_order(graph, start, seen):
    """Depth-first search without recursion: nodes in the order in which they are left."""
    if start not in graph:
        raise GraphError(f"no node {start!r}")
    order = []
    seen.add(start)
    stack = [(start, iter(graph.neighbours(start)))]
    while stack:
        node, others = stack[-1]
        for other in others:
            if other not in seen:
                seen.add(other)
                stack.append((other, iter(graph.neighbours(other))))
                break
        else:
            order.append(node)
            stack.pop()
    return order
