"""Documents are read from files of all kinds; errors give file and line."""

from __future__ import annotations

import gzip
import json

import pytest

from agentgym.base.errors import UsageError
from agentgym.tools.index import Document, document_of, read_documents
from tests.rows import each_row


def jsonl(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


@each_row(
    "record, document",
    [
        ({"_id": 7, "title": None, "body": "x"}, Document("7", "", "x")),
        ({"docid": "d", "contents": '"The Title"\nThe text.\nMore.'}, Document("d", "The Title", "The text.\nMore.")),
        ({"id": "a", "contents": "no title\nhere"}, Document("a", "", "no title\nhere")),
        ({"id": "a", "title": "Known", "contents": '"Q"\nx'}, Document("a", "Known", '"Q"\nx')),
        (
            {"id": "a", "text": "x", "year": 1999, "good": True, "tags": ["b", "a"], "none": None},
            Document("a", "", "x", {"year": "1999", "good": "true", "tags": '["b", "a"]'}),
        ),
    ],
)
def test_several_forms_of_records_are_accepted(record, document):
    assert document_of(record) == document


def test_plain_and_compressed_json_lines_are_read(tmp_path):
    records = [{"id": "a", "text": "é"}, {"id": "b", "text": "y"}]
    plain = jsonl(tmp_path / "d.jsonl", *records)
    packed = tmp_path / "d.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes() + b"\n  \n"))
    documents = [Document("a", "", "é"), Document("b", "", "y")]
    assert list(read_documents(plain)) == list(read_documents(str(packed))) == documents


def test_parquet_is_read(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="needs the [search] extra")
    from pyarrow import parquet

    table = pyarrow.table({"_id": [1, 2], "title": ["A", None], "text": ["x", "y"], "year": [3, None]})
    parquet.write_table(table, tmp_path / "d.parquet")
    assert list(read_documents(tmp_path / "d.parquet")) == [
        Document("1", "A", "x", {"year": "3"}),
        Document("2", "", "y"),
    ]


def test_a_folder_of_texts_is_read_in_order(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.md").write_text("\n## The Heading ##\ntext", encoding="utf-8")
    (tmp_path / "sub" / "a note.txt").write_text("\ufeffjust text", encoding="utf-8")
    (tmp_path / "other.csv").write_text("1,2")
    titles = [(document.id, document.title) for document in read_documents(tmp_path)]
    assert titles == [("b.md", "The Heading ##"), ("sub/a note.txt", "a note")]


@each_row(
    "line, message",
    [
        ("{", "not JSON"),
        ("[1]", "must be an object with an id and a text, not list"),
        ('{"text": "x"}', "there is no id; one of these keys must contain it: id, _id, docid"),
        ('{"id": 1}', "there is no text; one of these keys must contain it: text, contents, body"),
        ('{"id": 1, "text": 5}', "'text' and 'title' must be strings"),
        ('{"id": "a", "text": "again"}', "the id 'a' is already in use"),
    ],
)
def test_an_invalid_line_is_reported_with_its_place(tmp_path, line, message):
    path = tmp_path / "d.jsonl"
    path.write_text('{"id": "a", "text": "x"}\n\n' + line + "\n")
    with pytest.raises(UsageError, match=message) as caught:
        list(read_documents(path))
    assert str(caught.value).startswith(f"{path}:3: ")


@each_row(
    "name, content, message",
    [
        ("d.jsonl", b'{"id": "a", "text": "\xff"}\n', r"d\.jsonl:1: this line is not JSON"),
        ("d.jsonl.gz", gzip.compress(b"x" * 10_000)[:-9], "the compressed file is corrupt"),
        ("d.csv", b"x", r"supported are: \.jsonl, .*\.parquet, and folders"),
        ("d.parquet", b"no", "not a Parquet file"),
    ],
)
def test_an_unreadable_source_is_reported(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=message):
        list(read_documents(tmp_path / name))
