import pytest
from waygraph import (
    CycleError,
    Graph,
    GraphError,
    UnionFind,
    connected_components,
    find_cycle,
    is_bipartite,
    layers,
    spanning_tree,
    strong_components,
    topological_order,
    tree_weight,
)


def arrows(*pairs):
    return Graph([tuple(pair) for pair in pairs], directed=True)


def test_union_find():
    sets = UnionFind("abcd")
    assert sets.join("a", "b") is True
    assert sets.join("b", "a") is False
    sets.join("c", "b")
    assert sets.size("c") == 3
    assert sets.size("d") == 1
    assert sets.groups() == [["a", "b", "c"], ["d"]]


def test_union_find_add_keeps_sets():
    sets = UnionFind("ab")
    sets.join("a", "b")
    sets.add("a")
    assert sets.size("a") == 2


def test_connected_components():
    graph = Graph([("a", "b"), ("c", "d"), ("b", "e")])
    graph.add_node("z")
    assert connected_components(graph) == [["a", "b", "e"], ["c", "d"], ["z"]]


def test_strong_components():
    graph = arrows("ab", "bc", "ca", "cd", "de", "ed", "ef")
    assert strong_components(graph) == [["a", "b", "c"], ["d", "e"], ["f"]]


def test_strong_components_of_undirected():
    assert strong_components(Graph([("a", "b")])) == [["a", "b"]]


def test_bipartite():
    assert is_bipartite(Graph([("a", "x"), ("b", "x"), ("b", "y")])) == (["a", "b"], ["x", "y"])
    assert is_bipartite(Graph([("a", "b"), ("b", "c"), ("c", "a")])) is None
    assert is_bipartite(arrows("ba", "bc")) == (["b"], ["a", "c"])


def test_topological_order():
    assert topological_order(arrows("ac", "bc", "cd", "bd")) == ["a", "b", "c", "d"]


def test_layers():
    assert layers(arrows("ab", "ac", "bd", "cd", "de", "ae")) == [["a"], ["b", "c"], ["d"], ["e"]]


def test_order_needs_directions():
    with pytest.raises(GraphError):
        topological_order(Graph([("a", "b")]))


def test_cycle_is_told():
    with pytest.raises(CycleError) as caught:
        topological_order(arrows("ab", "bc", "cd", "db"))
    assert sorted(caught.value.cycle) == ["b", "c", "d"]
    assert str(caught.value).startswith("cycle: ")


def test_find_cycle_follows_edges():
    graph = arrows("xa", "ab", "bc", "ca", "cy")
    cycle = find_cycle(graph)
    assert len(cycle) == 3
    assert all(after in graph.neighbours(node) for node, after in zip(cycle, cycle[1:] + cycle[:1]))


def test_no_cycle():
    assert find_cycle(arrows("ab", "bc", "ac")) is None


def test_spanning_tree():
    graph = Graph([("a", "b", 1), ("b", "c", 2), ("a", "c", 3), ("d", "e", 5)])
    tree = spanning_tree(graph)
    assert tree.edges() == [("a", "b", 1), ("b", "c", 2), ("d", "e", 5)]
    assert tree_weight(tree) == 8


def test_largest_spanning_tree():
    graph = Graph([("a", "b", 1), ("b", "c", 2), ("a", "c", 3)])
    assert tree_weight(spanning_tree(graph, largest=True)) == 5


def test_spanning_tree_of_directed_graph():
    with pytest.raises(GraphError):
        spanning_tree(arrows("ab"))
