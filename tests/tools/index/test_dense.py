"""Indexes of vectors from any encoder, and combined indexes."""

from __future__ import annotations

import random

import numpy
import pytest

from agentgym.base.errors import MissingExtra, UsageError
from agentgym.tools.index import Document, Encoder, HybridIndex, MemoryIndex, build_index, open_index
from tests.rows import each_row
from tests.tools.index.index_cases import DOCUMENTS, build, encode, ids

pytest.importorskip("usearch", reason="needs the [dense] extra")

pytestmark = pytest.mark.real


def numbers(texts: list[str]) -> numpy.ndarray:
    """Encode a text of numbers as these numbers."""
    return numpy.array([[float(number) for number in text.split()] for text in texts])


def points(count: int) -> list[Document]:
    choose = random.Random(0)
    return [Document(f"{n:05}", "", " ".join(f"{choose.gauss(0, 1):.3f}" for _ in range(8))) for n in range(count)]


def test_hits_are_ordered_by_cosine_similarity(tmp_path):
    documents = [Document("right", "", "9 0"), Document("up", "", "0 1"), Document("nothing", "", "0 0")]
    index = build_index(documents, tmp_path / "x", "dense", numbers)
    assert [(hit.id, hit.score) for hit in index.search("3 1")] == [
        ("right", 0.94868),
        ("up", 0.31623),
        ("nothing", 0.0),
    ]


def test_queries_and_documents_are_encoded_with_their_prefixes(tmp_path):
    encoded: list[str] = []

    def watch(texts: list[str]) -> numpy.ndarray:
        encoded.extend(texts)
        return encode(texts)

    index = build_index(DOCUMENTS[:1], tmp_path / "x", "dense", Encoder(watch, "query: ", "passage: "))
    index.search("who?")
    assert encoded == ["passage: Ştefan the Great\nPrince of Moldavia. He fought at Vaslui.", "query: who?"]


def test_a_graph_search_finds_most_of_the_exact_hits(tmp_path, monkeypatch):
    documents = points(3_000)
    exact = build_index(documents, tmp_path / "exact", "dense", numbers)
    monkeypatch.setattr("agentgym.tools.index.backends.dense._EXACT_UP_TO", 1_000)
    graph = build_index(documents, tmp_path / "graph", "dense", numbers)
    queries = [document.text for document in points(50)]
    near, nearest = graph.search_many(queries, 10), exact.search_many(queries, 10)
    common = sum(len(set(ids(hits)) & set(ids(best))) for hits, best in zip(near, nearest, strict=True))
    assert common >= 450
    assert (tmp_path / "graph" / "vectors.usearch").exists()
    assert open_index(tmp_path / "graph", numbers).search_many(queries, 10) == near


def test_a_filtered_search_is_exact(tmp_path, monkeypatch):
    monkeypatch.setattr("agentgym.tools.index.backends.dense._EXACT_UP_TO", 10)
    documents = [*points(200), Document("rare", "", "-5 -5 -5 -5 -5 -5 -5 -5", {"kind": "rare"})]
    index = build_index(documents, tmp_path / "x", "dense", numbers)
    assert ids(index.search("1 1 1 1 1 1 1 1", 3, {"kind": "rare"})) == ["rare"]


def test_an_index_built_with_a_function_requires_it_to_open(tmp_path):
    build(tmp_path / "x", "dense").close()
    with pytest.raises(UsageError, match="give open_index the same `encoder`"):
        open_index(tmp_path / "x")
    index = open_index(tmp_path / "x", lambda texts: numpy.ones((len(texts), 3)))
    with pytest.raises(UsageError, match="dimension 3, and the index's 512"):
        index.search("prince")


@each_row("wrong", [lambda texts: numpy.ones(5), lambda texts: numpy.full((len(texts), 5), numpy.nan)])
def test_an_invalid_encoder_is_reported(tmp_path, wrong):
    with pytest.raises(UsageError, match="rows of finite numbers"):
        build_index(DOCUMENTS, tmp_path / "x", "dense", wrong)


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'agentgym-suite\[dense\]'"):
        build_index(DOCUMENTS, tmp_path / "x", "dense", "some/model")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory) -> str:
    """A small untrained model for sentence-transformers."""
    pytest.importorskip("sentence_transformers", reason="needs the [dense] extra")
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    folder = str(tmp_path_factory.mktemp("model"))
    words = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    texts = [f"{document.title} {document.text}" for document in DOCUMENTS]
    words.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=special))
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    shape = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=64, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64
    )
    transformers.BertModel(shape).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_an_index_remembers_the_path_of_its_model(tmp_path, model_folder):
    built = build_index(DOCUMENTS, tmp_path / "x", "dense", model_folder)
    (first,) = built.search("Tisza\nA river that joins the Danube.", 1)
    # Even an untrained model gives equal texts the same vector.
    assert (first.id, first.score) == ("tisza", pytest.approx(1.0, abs=1e-4))
    assert open_index(tmp_path / "x").search("Tisza\nA river that joins the Danube.", 1) == [first]


def test_hybrid_indexes_prefer_documents_ranked_high_by_several():
    texts = {"a": "red green", "b": "red blue blue", "c": "green green"}
    first = MemoryIndex(Document(key, "", text) for key, text in texts.items())
    second = MemoryIndex([Document("b", "", "red"), Document("c", "", "none")])
    hybrid = HybridIndex([first, second])
    assert ids(first.search("red")) == ["a", "b"]
    assert [(hit.id, hit.score) for hit in hybrid.search("red")] == [
        ("b", round(1 / 62 + 1 / 61, 8)),
        ("a", round(1 / 61, 8)),
    ]
    assert ids(HybridIndex([first, second], weights=[1, 0]).search("red")) == ["a", "b"]
