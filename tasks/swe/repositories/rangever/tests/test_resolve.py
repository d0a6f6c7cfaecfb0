import pytest
from rangever import (
    Catalog,
    ResolutionError,
    Version,
    VersionSyntaxError,
    group_by_major,
    max_satisfying,
    min_satisfying,
    resolve,
    sort_versions,
)

TEXTS = ["1.0.0", "2.1.0", "1.10.0", "1.9.0", "2.0.0-rc.1"]


def shown(versions):
    return [str(version) for version in versions]


def test_sort():
    assert shown(sort_versions(TEXTS)) == ["1.0.0", "1.9.0", "1.10.0", "2.0.0-rc.1", "2.1.0"]
    assert shown(sort_versions(TEXTS, newest_first=True))[0] == "2.1.0"


def test_sort_not_strict_leaves_out():
    assert shown(sort_versions(["1.0.0", "latest"], strict=False)) == ["1.0.0"]
    with pytest.raises(VersionSyntaxError):
        sort_versions(["1.0.0", "latest"])


def test_max_and_min():
    assert str(max_satisfying(TEXTS, "^1.0")) == "1.10.0"
    assert str(min_satisfying(TEXTS, ">1.0.0")) == "1.9.0"
    assert max_satisfying(TEXTS, "^7") is None


def test_group_by_major():
    assert group_by_major(TEXTS) == {1: Version(1, 10), 2: Version(2, 1)}
    assert group_by_major(["2.0.0-rc.1"], prereleases=True) == {2: Version.parse("2.0.0-rc.1")}
    assert group_by_major(["2.0.0-rc.1"]) == {}


@pytest.fixture
def catalog():
    catalog = Catalog()
    catalog.add("app", "1.0.0", {"web": "^2", "log": "*"})
    catalog.add("app", "2.0.0", {"web": "^3", "log": "^1"})
    catalog.add("web", "2.5.0", {"log": "^1"})
    catalog.add("web", "3.0.0", {"log": "^2"})
    catalog.add("log", "1.4.0")
    catalog.add("log", "2.0.0")
    return catalog


def test_versions_newest_first(catalog):
    assert shown(catalog.versions("log")) == ["2.0.0", "1.4.0"]
    assert catalog.versions("nothing") == []


def test_newest_that_fits(catalog):
    assert resolve(catalog, {"web": "*"}) == {"web": Version(3), "log": Version(2)}


def test_goes_back_where_needed(catalog):
    assert resolve(catalog, {"app": "*"}) == {"app": Version(1), "web": Version(2, 5), "log": Version(1, 4)}


def test_result_is_in_order_of_names(catalog):
    assert list(resolve(catalog, {"web": "2.x"})) == ["log", "web"]


def test_no_solution_names_the_package(catalog):
    with pytest.raises(ResolutionError) as caught:
        resolve(catalog, {"web": "^3", "log": "^1"})
    assert caught.value.package == "log"
    assert ("you", "^1") in caught.value.wanted
    assert "web 3.0.0 needs ^2" in str(caught.value)


def test_unknown_package(catalog):
    with pytest.raises(ResolutionError, match="'nothing'"):
        resolve(catalog, {"nothing": "*"})
