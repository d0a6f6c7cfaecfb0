import pytest
from waygraph import Graph, GraphError, NoPathError, distances, shortest_path, shortest_path_avoiding

ROADS = [("a", "b", 4), ("a", "c", 2), ("c", "b", 1), ("b", "d", 5), ("c", "d", 8), ("d", "e", 3)]


def test_shortest_path():
    assert shortest_path(Graph(ROADS), "a", "e") == (["a", "c", "b", "d", "e"], 11)


def test_path_to_itself():
    assert shortest_path(Graph(ROADS), "a", "a") == (["a"], 0)


def test_direction_matters():
    graph = Graph(ROADS, directed=True)
    with pytest.raises(NoPathError):
        shortest_path(graph, "e", "a")


def test_unknown_nodes():
    with pytest.raises(GraphError, match="'z'"):
        shortest_path(Graph(ROADS), "z", "a")
    with pytest.raises(GraphError, match="'y'"):
        shortest_path(Graph(ROADS), "a", "y")


def test_distances():
    assert distances(Graph(ROADS), "a") == {"a": 0, "c": 2, "b": 3, "d": 8, "e": 11}


def test_distances_limit_is_included():
    assert distances(Graph(ROADS), "a", limit=8) == {"a": 0, "c": 2, "b": 3, "d": 8}


def test_avoiding():
    assert shortest_path_avoiding(Graph(ROADS), "a", "d", ["b"]) == (["a", "c", "d"], 10)
    with pytest.raises(NoPathError):
        shortest_path_avoiding(Graph(ROADS), "a", "e", ["d"])


def test_avoiding_ends_is_ignored():
    assert shortest_path_avoiding(Graph(ROADS), "a", "d", ["a", "d"])[1] == 8


def test_negative_weight_is_refused():
    with pytest.raises(GraphError, match="negative"):
        distances(Graph([("a", "b", -1)]), "a")


def test_zero_weight_is_allowed():
    assert distances(Graph([("a", "b", 0)]), "a") == {"a": 0, "b": 0}


def test_nodes_need_not_be_comparable():
    graph = Graph([("a", 1), ("a", None), (1, "z"), (None, "z")])
    assert shortest_path(graph, "a", "z")[1] == 2
