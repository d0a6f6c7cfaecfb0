import pytest
from waygraph import Graph, GraphError


@pytest.fixture
def graph():
    return Graph([("a", "b", 2), ("b", "c"), ("a", "c", 7)])


@pytest.fixture
def arrows():
    return Graph([("a", "b", 2), ("b", "c"), ("a", "c", 7)], directed=True)


def test_nodes_in_order(graph):
    assert graph.nodes == ["a", "b", "c"]
    assert len(graph) == 3
    assert "a" in graph
    assert "z" not in graph


def test_undirected_edges_are_listed_once(graph):
    assert graph.edges() == [("a", "b", 2), ("a", "c", 7), ("b", "c", 1)]


def test_directed_edges(arrows):
    arrows.add_edge("b", "a", 5)
    assert ("b", "a", 5) in arrows.edges()
    assert ("a", "b", 2) in arrows.edges()


def test_neighbours_and_predecessors(arrows):
    assert arrows.neighbours("a") == {"b": 2, "c": 7}
    assert arrows.predecessors("c") == {"b": 1, "a": 7}
    assert arrows.predecessors("a") == {}


def test_neighbours_are_a_copy(graph):
    graph.neighbours("a").clear()
    assert graph.degree("a") == 2


def test_weight(graph, arrows):
    assert graph.weight("c", "a") == 7
    with pytest.raises(GraphError, match="no edge"):
        arrows.weight("c", "a")
    with pytest.raises(GraphError, match="no node"):
        graph.weight("z", "a")


def test_loop_is_refused(graph):
    with pytest.raises(GraphError):
        graph.add_edge("a", "a")


def test_weight_is_replaced(graph):
    graph.add_edge("b", "a", 9)
    assert graph.weight("a", "b") == 9
    assert len(graph.edges()) == 3


def test_remove_edge(graph, arrows):
    graph.remove_edge("c", "a")
    assert graph.edges() == [("a", "b", 2), ("b", "c", 1)]
    with pytest.raises(GraphError):
        arrows.remove_edge("c", "a")
    arrows.remove_edge("a", "c")
    assert arrows.predecessors("c") == {"b": 1}


def test_remove_node(graph, arrows):
    graph.remove_node("b")
    assert graph.edges() == [("a", "c", 7)]
    arrows.remove_node("b")
    assert arrows.predecessors("c") == {"a": 7}
    with pytest.raises(GraphError):
        arrows.remove_node("b")


def test_degree(graph, arrows):
    assert graph.degree("a") == 2
    assert arrows.degree("b") == 2


def test_reversed(arrows):
    turned = arrows.reversed()
    assert turned.neighbours("c") == {"b": 1, "a": 7}
    assert turned.nodes == arrows.nodes


def test_subgraph(graph):
    part = graph.subgraph(["a", "c", "x"])
    assert part.nodes == ["a", "c"]
    assert part.edges() == [("a", "c", 7)]


def test_copy_is_independent(arrows):
    twin = arrows.copy()
    twin.remove_node("a")
    assert twin.directed
    assert len(arrows) == 3
