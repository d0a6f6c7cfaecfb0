"""Graphs as nodes with weighted edges."""


class GraphError(ValueError):
    """Something that a graph cannot hold or does not have."""


class Graph:
    """Nodes, and edges with weights between them.

    Args:
        edges: Tuples (from, to) or (from, to, weight).
        directed: Whether an edge can be taken one way only.
    """

    def __init__(self, edges=(), *, directed=False):
        self.directed = directed
        self._out = {}
        self._in = {}
        for edge in edges:
            self.add_edge(*edge)

    def add_node(self, node):
        """Add a node; nothing happens if it is there."""
        self._out.setdefault(node, {})
        self._in.setdefault(node, {})

    def add_edge(self, source, target, weight=1):
        """Add an edge, and its nodes; the weight of one that is there is replaced."""
        if source == target:
            raise GraphError(f"edge from {source!r} to itself")
        self.add_node(source)
        self.add_node(target)
        self._out[source][target] = weight
        self._in[target][source] = weight
        if not self.directed:
            self._out[target][source] = weight
            self._in[source][target] = weight

    def remove_edge(self, source, target):
        """Remove an edge. Raises `GraphError` if there is none."""
        if target not in self._out.get(source, {}):
            raise GraphError(f"no edge from {source!r} to {target!r}")
        del self._out[source][target]
        del self._in[target][source]
        if not self.directed:
            del self._out[target][source]
            del self._in[source][target]

    def remove_node(self, node):
        """Remove a node with all its edges. Raises `GraphError` if there is none."""
        self._check(node)
        for other in list(self._out[node]):
            self._in[other].pop(node, None)
        for other in list(self._in[node]):
            self._out[other].pop(node, None)
        del self._out[node]
        del self._in[node]

    def neighbours(self, node):
        """Return where one can go from a node, with the weights."""
        self._check(node)
        return dict(self._out[node])

    def predecessors(self, node):
        """Return from where one can come to a node, with the weights."""
        self._check(node)
        return dict(self._in[node])

    def weight(self, source, target):
        """Return the weight of an edge. Raises `GraphError` if there is none."""
        self._check(source)
        if target not in self._out[source]:
            raise GraphError(f"no edge from {source!r} to {target!r}")
        return self._out[source][target]

    def degree(self, node):
        """Return the number of edges at a node."""
        self._check(node)
        if self.directed:
            return len(self._out[node]) + len(self._in[node])
        return len(self._out[node])

    @property
    def nodes(self):
        """The nodes, in the order in which they were added."""
        return list(self._out)

    def edges(self):
        """Return (source, target, weight) tuples; each edge of an undirected graph once."""
        found = []
        seen = set()
        for source, targets in self._out.items():
            for target, weight in targets.items():
                if self.directed or (target, source) not in seen:
                    found.append((source, target, weight))
                    seen.add((source, target))
        return found

    def reversed(self):
        """Return the graph with all edges the other way round."""
        turned = Graph(directed=self.directed)
        for node in self.nodes:
            turned.add_node(node)
        for source, target, weight in self.edges():
            turned.add_edge(target, source, weight)
        return turned

    def subgraph(self, nodes):
        """Return the part of the graph with the given nodes and the edges between them."""
        kept = set(nodes)
        part = Graph(directed=self.directed)
        for node in self.nodes:
            if node in kept:
                part.add_node(node)
        for source, target, weight in self.edges():
            if source in kept and target in kept:
                part.add_edge(source, target, weight)
        return part

    def copy(self):
        """Return a graph of its own with the same nodes and edges."""
        return self.subgraph(self.nodes)

    def _check(self, node):
        if node not in self._out:
            raise GraphError(f"no node {node!r}")

    def __contains__(self, node):
        return node in self._out

    def __len__(self):
        return len(self._out)
