import pytest
from rangever import Version, VersionSyntaxError


def test_parse_all_parts():
    version = Version.parse("1.20.3-beta.2+linux.x64")
    assert (version.major, version.minor, version.patch) == (1, 20, 3)
    assert version.prerelease == ("beta", 2)
    assert version.build == ("linux", "x64")


@pytest.mark.parametrize("text", ["1.2.3", "0.0.0", "1.0.0-rc.1", "10.20.30-a.b.1+c.d"])
def test_str_round_trip(text):
    assert str(Version.parse(text)) == text


def test_leading_v_and_space():
    assert Version.parse(" v1.2.3 ") == Version(1, 2, 3)


@pytest.mark.parametrize("text", ["", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.3-", "a.b.c", "1.2.3 beta"])
def test_not_a_version(text):
    with pytest.raises(VersionSyntaxError):
        Version.parse(text)


def test_order_of_the_specification():
    texts = [
        "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11",
        "1.0.0-rc.1", "1.0.0", "1.0.1", "1.2.0", "1.10.0", "2.0.0",
    ]  # fmt: skip
    versions = [Version.parse(text) for text in texts]
    assert sorted(reversed(versions)) == versions
    assert all(low < high for low, high in zip(versions, versions[1:]))


def test_build_is_ignored_in_comparisons():
    one, two = Version.parse("1.0.0+a"), Version.parse("1.0.0+b")
    assert one == two
    assert hash(one) == hash(two)
    assert not one < two


def test_not_equal_to_other_types():
    assert Version(1) != "1.0.0"


@pytest.mark.parametrize(
    ("text", "part", "expected"),
    [
        ("1.2.3", "major", "2.0.0"),
        ("1.2.3", "minor", "1.3.0"),
        ("1.2.3", "patch", "1.2.4"),
        ("1.2.3-rc.1", "patch", "1.2.3"),
        ("1.2.3", "prerelease", "1.2.4-rc.1"),
        ("1.2.4-rc.1+x", "prerelease", "1.2.4-rc.2"),
        ("1.2.4-beta", "prerelease", "1.2.4-beta.1"),
    ],
)
def test_bump(text, part, expected):
    assert str(Version.parse(text).bump(part)) == expected


def test_bump_unknown_part():
    with pytest.raises(ValueError, match="cannot bump"):
        Version(1).bump("build")


def test_release():
    version = Version.parse("1.2.3-rc.1+x")
    assert version.is_prerelease
    assert str(version.release) == "1.2.3"
    assert not version.release.is_prerelease
