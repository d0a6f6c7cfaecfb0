"""Diffs of any two trees apply and reverse exactly, agree with git, and errors give location and reason."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.tools.patches import (
    PatchError,
    apply_patch,
    diff_trees,
    localisation,
    parse_patch,
    reverse_patch,
    similarity,
    touched,
)
from tests.rows import each_row

LINES = st.lists(st.sampled_from(["", "a", "b", "  c", "-- d", "++ e", "@@ f", "\\ g", "é", "h\r", "\x0c", "\u2028"]))
CONTENT = st.builds(lambda lines, end: ("\n".join(lines) + end).encode(), LINES, st.sampled_from(["", "\n"]))
PATHS = st.sampled_from(["a.py", "b/c.py", "with blank.txt", 'q"uo\\te', "né.md", "tab\tnew\nline", "a ", "x/y/z"])
TREES = st.dictionaries(PATHS, CONTENT | st.binary(max_size=80), max_size=4)
BEFORE = {"m.py": b"one\ntwo\nthree\nfour\nfive\nsix\n"}
EDIT = "--- a/m.py\n+++ b/m.py\n@@ -2,3 +2,3 @@\n two\n-three\n+THREE\n four\n"


def random_trees(seed: int) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Two trees of text files that differ by a few edits, deletions and creations, and of a binary file."""
    rng = random.Random(seed)
    words = ["", "x", "y = 1", "    return y", "def f():", "# é", "z\r", "-- a", "++ b"]
    before = {f"d{i % 2}/f{i}.txt": rng.choices(words, k=rng.randrange(60)) for i in range(4)}
    after = {path: list(lines) for path, lines in before.items() if rng.random() < 0.8}
    for lines in after.values():
        for _ in range(rng.randrange(4)):
            at = rng.randrange(len(lines) + 1)
            lines[at : at + rng.randrange(4)] = rng.choices(words, k=rng.randrange(4))
    after["new one.txt"] = rng.choices(words, k=rng.randrange(1, 5))

    def data(tree: dict[str, list[str]], end: str, binary: bytes) -> dict[str, bytes]:
        return {"bin": binary} | {path: ("\n".join(lines) + end).encode() for path, lines in tree.items()}

    return data(before, rng.choice(["", "\n"]), bytes(range(256))), data(
        after, rng.choice(["", "\n"]), rng.randbytes(99)
    )


def write_tree(root: Path, tree: dict[str, bytes]) -> None:
    for path, content in tree.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)


def read_tree(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@given(TREES, TREES, st.integers(0, 4))
@settings(max_examples=300)
def test_a_diff_turns_one_tree_into_the_other_and_its_reverse_undoes_it(before, after, context):
    text = diff_trees(before, after, context=context)
    assert apply_patch(before, text) == after
    assert apply_patch(after, reverse_patch(text)) == before


@given(st.text(max_size=300) | st.builds("".join, st.lists(st.sampled_from(EDIT.splitlines(True)), max_size=12)))
@settings(max_examples=300)
def test_arbitrary_text_raises_only_patch_errors(text):
    try:
        apply_patch(BEFORE, text, fuzz=1)
    except PatchError:
        return


@pytest.mark.real
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@each_row("seed", range(24))
def test_git_applies_our_diffs_and_we_apply_gits(tmp_path, seed):
    before, after = random_trees(seed)
    git = ["git", "-c", "core.autocrlf=false", "-c", "core.quotepath=true"]
    for name, tree in (("ours", before), ("a", before), ("b", after)):
        (tmp_path / name).mkdir()
        write_tree(tmp_path / name, tree)
    patch = diff_trees(before, after)
    subprocess.run([*git, "apply", "--whitespace=nowarn", "-"], cwd=tmp_path / "ours", input=patch.encode(), check=True)
    assert read_tree(tmp_path / "ours") == after
    command = [*git, "diff", "--no-index", "--no-prefix", "--binary", "a", "b"]
    theirs = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).stdout.decode()
    # With --no-prefix, the folders serve as prefixes; new and deleted files are in only one of them.
    theirs = theirs.replace("diff --git b/", "diff --git a/")
    assert apply_patch(before, theirs) == after


def test_a_hunk_applies_at_the_nearest_matching_place():
    shifted = {"m.py": b"# new\n" * 50 + BEFORE["m.py"]}
    assert apply_patch(shifted, EDIT)["m.py"].endswith(b"two\nTHREE\nfour\nfive\nsix\n")
    lines = [b"two\n", b"three\n", b"four\n"]
    tree = {"m.py": b"".join([b"0\n", *lines, *[b"-\n"] * 9, *lines])}
    assert apply_patch(tree, EDIT)["m.py"].startswith(b"0\ntwo\nTHREE\nfour\n-\n")


def test_a_mismatch_names_hunk_file_line_and_both_texts():
    with pytest.raises(PatchError) as caught:
        apply_patch({"m.py": BEFORE["m.py"].replace(b"three", b"drei")}, EDIT)
    message = "patch line 3: hunk 1 of 'm.py' does not apply: expected line 3 to be 'three\\n', found 'drei\\n'"
    assert str(caught.value) == message
    assert (caught.value.line, caught.value.path) == (3, "m.py")


@each_row(
    "content, reason",
    [
        (b"one\ntwo\nTHREE\nfour\n", "already present at line 2"),
        (b"one\ntwo\n", "the file has 2 lines"),
    ],
)
def test_a_mismatch_gives_a_reason(content, reason):
    with pytest.raises(PatchError, match=reason):
        apply_patch({"m.py": content}, EDIT)


def test_lines_added_after_a_last_line_without_an_end_get_that_of_the_line_before():
    patch = "--- a/m\n+++ b/m\n@@ -1,2 +1,3 @@\n a\n-b\n\\ No newline at end of file\n+b\n+c\n"
    assert apply_patch({"m": b"a\r\nb"}, patch) == {"m": b"a\r\nb\r\nc\r\n"}


def test_a_hunk_that_states_crlf_ends_does_not_match_others():
    with pytest.raises(PatchError, match="only the line endings differ"):
        apply_patch(BEFORE, EDIT.replace("-three\n+THREE", "-three\r\n+THREE"))


def test_fuzz_lets_outer_context_differ():
    assert apply_patch({"m.py": b"one\nTWO\nthree\nfour\n"}, EDIT, fuzz=1) == {"m.py": b"one\nTWO\nTHREE\nfour\n"}


@each_row(
    "before, after",
    [
        (b"one\r\ntwo\nthree\r\nfour\n", b"one\r\ntwo\nTHREE\r\nfour\n"),
        (b"one\ntwo\r\nthree\nfour\r\n", b"one\ntwo\r\nTHREE\nfour\r\n"),
    ],
)
def test_a_patch_keeps_mixed_line_ends(before: bytes, after: bytes):
    assert apply_patch({"m.py": before}, EDIT) == {"m.py": after}


def test_a_patch_applies_to_a_file_with_crlf_ends_and_keeps_them():
    crlf = {"m.py": BEFORE["m.py"].replace(b"\n", b"\r\n")}
    mixed = b"one\r\ntwo\nthree\nfour\n"
    after = crlf["m.py"].replace(b"three", b"THREE")
    assert apply_patch({"m.py": mixed}, EDIT)["m.py"] == mixed.replace(b"three", b"THREE")
    assert apply_patch(crlf, EDIT)["m.py"] == after
    assert apply_patch(crlf, EDIT.replace("\n", "\r\n"))["m.py"] == after
    assert apply_patch(BEFORE, EDIT.replace("\n", "\r\n"))["m.py"] == BEFORE["m.py"].replace(b"three", b"THREE")


def test_renames_and_swaps_use_the_original_tree():
    text = "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n"
    swap = text + "diff --git a/y b/x\nsimilarity index 100%\nrename from y\nrename to x\n"
    assert apply_patch({"x": b"1"}, text) == {"y": b"1"}
    assert apply_patch({"x": b"1", "y": b"2"}, swap) == {"x": b"2", "y": b"1"}
    assert apply_patch({"y": b"1"}, reverse_patch(text)) == {"x": b"1"}
    with pytest.raises(PatchError, match="the file already exists"):
        apply_patch({"x": b"1", "y": b"2"}, text)


def test_plain_diffs_mail_headers_and_stripped_blank_context_are_parsed():
    text = "From abc\nSubject: x\n---\n m.py | 2\n\n--- m.py.orig\t2020-01-01 00:00:00\n+++ m.py\t2020-01-02 00:00:00\n"
    text += "@@ -1,3 +1,3 @@ def f():\n one\n\n-two\n+2\n-- \n2.40\n"
    (patch,) = parse_patch(text)
    assert (patch.path, patch.hunks[0].section) == ("m.py", "def f():")
    assert apply_patch({"m.py": b"one\n\ntwo\n"}, text) == {"m.py": b"one\n\n2\n"}


@each_row(
    "text, line, reason",
    [
        ("hello", 1, "no file patch found"),
        ("@@ -1 +1 @@\n-a\n+b\n", 1, "a hunk without"),
        ("--- a/f\n+++ b/f\n@@ -1,2 +1 @@\n-a\n", 5, "announces 2 old and 1 new lines"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n-b\n+c\n", 5, "more than the announced"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n+c\n", 6, "counts too few"),
        ("diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+t\n", 1, "a symbolic link"),
    ],
)
def test_malformed_patches_are_refused_with_the_line(text, line, reason):
    with pytest.raises(PatchError, match=reason) as caught:
        parse_patch(text)
    assert caught.value.line == line


@each_row("path", ["../x", "/etc/passwd", "a/../../x", ".git/config", "sub/.GIT/hooks/x", "a//b", "./x"])
def test_paths_that_leave_the_tree_or_enter_gits_folder_are_refused(path):
    for text in (
        f"--- a/{path}\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n",
        f"diff --git a/ok b/ok\nrename from ok\nrename to {path}\n",
    ):
        with pytest.raises(PatchError, match="path"):
            apply_patch({"ok": b"x\n"}, text)
    with pytest.raises(PatchError):
        diff_trees({}, {path: b"x"})


def test_binary_contents_that_grow_beyond_their_size_are_refused():
    good = diff_trees({}, {"b": b"\0" * 100})
    with pytest.raises(PatchError, match="not the announced 10"):
        parse_patch(good.replace("literal 100", "literal 10"))
    with pytest.raises(PatchError, match="over the limit"):
        parse_patch(good.replace("literal 100", "literal 99999999999"))


@pytest.mark.timeout(60)
def test_diffs_and_similarities_of_hostile_files_end_in_bounded_time():
    before, after, other = ({"f": "".join(f"x\n{i * n}\n" for i in range(4000)).encode()} for n in (1, -1, -2))
    patch = diff_trees(before, after)
    assert apply_patch(before, patch) == after
    assert 0 <= similarity(patch, diff_trees(before, other)) < 1


def test_similarity_is_defined_as_in_swe_rl():
    before = {"f.py": b"x = 1\ny = 2\n", "g.py": b"z\n"}
    gold = diff_trees(before, before | {"f.py": b"x = 1\ny = 3\n"})
    near = diff_trees(before, before | {"f.py": b"x = 1\ny = 4\n"})
    extra = diff_trees(before, {"f.py": b"x = 1\ny = 3\n", "g.py": b"zz\n"})
    assert similarity(near, gold) == pytest.approx(35 / 36)
    assert similarity(extra, gold) == 0.5
    assert similarity("", gold) == 0.0
    assert similarity(gold, gold) == similarity("", "") == 1.0


def test_similarity_ignores_headers_sections_and_missing_last_newlines():
    gold = diff_trees({"f": b"x = 1\ny = 2"}, {"f": b"x = 1\ny = 3"})
    other = "--- f\t2020\n+++ f\t2021\n@@ -1,2 +1,2 @@ class A:\n x = 1\n-y = 2\n+y = 3\n"
    assert similarity(other, gold) == 1.0


def test_touched_lines_are_original_lines_without_context():
    before = {"m.py": b"".join(b"%d\n" % i for i in range(1, 31))}
    lines = before["m.py"].splitlines(keepends=True)
    lines[24:26] = [b"new\n"]
    lines[9:9] = [b"added\n"]
    lines[0:0] = [b"top\n"]
    text = diff_trees(before, {"m.py": b"".join(lines), "n.py": b"x\n"})
    assert touched(text) == {"m.py": ((1, 1), (9, 9), (25, 26)), "n.py": ()}


def test_localisation_is_one_for_the_gold_patch_and_less_for_wrong_places():
    before = {"a": b"1\n2\n3\n4\n", "b": b"1\n2\n"}
    gold = diff_trees(before, before | {"a": b"1\nX\n3\n4\n"})
    same_line = diff_trees(before, before | {"a": b"1\nY\n3\n4\n"})
    wider = diff_trees(before, {"a": b"1\nX\nX\nX\n", "b": b"1\nX\n"})
    assert localisation(same_line, gold) == (1.0, 1.0, 1.0)
    assert localisation(wider, gold) == (pytest.approx(2 / 3), pytest.approx(2 / 5), 0.75)
    far = {"a": b"1\n" * 100}
    everywhere = diff_trees(far, {"a": b"1\n# x\n" * 100})
    assert localisation(everywhere, diff_trees(far, {"a": b"X\n" + b"1\n" * 99})).precision < 0.2
    assert localisation("", gold) == (0.0, 0.0, 0.0)
    assert localisation("", "") == (1.0, 1.0, 1.0)
