"""Search that gets worse by a schedule, reproducibly."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.tools.index import Document, Index, build_index
from agentgym.tools.index.cassette import Cassette
from agentgym.tools.index.simulated import Quality, Schedule, SimulatedIndex
from agentgym.tools.index.writing import OpenAIEndpoint
from tests.endpoints import Fake, completion
from tests.rows import each_row

FIRST = ["Anna", "Bela", "Cora", "Dario", "Edda", "Falk", "Greta", "Hugo", "Ines", "Jorn"]
LAST = ["Vell", "Marsh", "Okoro", "Lindt", "Sable", "Quill", "Tarn", "Ruiz", "Ames", "Holt"]
TOWNS = ["Aldery", "Brackmoor", "Corvale", "Dunswick", "Eastmere", "Farrow", "Gillan", "Harnost"]
WHOLE = Schedule(start=1.0, end=1.0)


def people() -> list[Document]:
    random = Random(5)
    return [
        Document(
            f"p{10 * i + j}",
            f"{first} {last}",
            f"{first} {last} was born in {random.choice(TOWNS)} on {random.randint(1, 28)} March "
            f"{random.randint(1700, 1990)}. {last} led the University of {random.choice(TOWNS)} with "
            f"{random.randint(20, 90)},{random.randint(100, 999)} students for {random.randint(2, 30)} years.",
        )
        for i, first in enumerate(FIRST)
        for j, last in enumerate(LAST)
    ]


@pytest.fixture(scope="module")
def inner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    index = build_index(people(), tmp_path_factory.mktemp("people") / "index")
    yield index
    index.close()


def values_of(document: Document) -> set[str]:
    """The facts of a document, such as its town and date, without its own name."""
    return set(re.findall(r"\d+(?:,\d+)?|March", document.text)) | {town for town in TOWNS if town in document.text}


@each_row("step, part", [(0, 0.0), (101.5, 1 / 6), (203, 0.5), (500, 0.5), (-3, 0.0)])
def test_the_schedule_is_zerosearchs(step: float, part: float):
    assert Schedule().at(step) == pytest.approx(part)


def test_an_invalid_schedule_is_refused():
    with pytest.raises(UsageError):
        Schedule(end=1.1)


def test_nothing_is_changed_at_the_start(inner: Index):
    simulated = SimulatedIndex(inner, seed=1)
    assert simulated.search("Anna Vell", 10) == inner.search("Anna Vell", 10)
    assert simulated.open("p0") == inner.open("p0")
    assert len(simulated) == len(inner)


def test_the_scheduled_part_is_replaced(inner: Index):
    simulated = SimulatedIndex(inner, seed=3).at(203)
    names = [f"{first} {last}" for first in FIRST for last in LAST]
    qualities = [simulated.quality(name, rank, f"p{n}") for n, name in enumerate(names) for rank in range(10)]
    for quality, part in ((Quality.USEFUL, 0.5), (Quality.NOISY, 0.25), (Quality.MISLEADING, 0.25)):
        assert qualities.count(quality) / len(qualities) == pytest.approx(part, abs=0.08)


def test_the_same_seed_query_and_step_give_the_same_hits(inner: Index):
    first, second = (SimulatedIndex(inner, seed=7) for _ in range(2))
    first.step = 150
    first.search("University of Corvale", 10)
    expected = [first.search(f"born in {town}", 5) for town in TOWNS]
    assert second.at(150).search_many([f"born in {town}" for town in TOWNS], 5) == expected
    assert pickle.loads(pickle.dumps(first)).search(f"born in {TOWNS[0]}", 5) == expected[0]
    assert [SimulatedIndex(inner, seed=8).at(150).search(f"born in {town}", 5) for town in TOWNS] != expected


def test_noise_is_about_other_subjects(inner: Index):
    simulated = SimulatedIndex(inner, WHOLE, seed=2, misleading=0.0)
    related = {hit.id for hit in inner.search("Cora Quill", 50)}
    hits = simulated.search("Cora Quill", 5)
    assert len(hits) == 5
    assert not related & {hit.id for hit in hits}
    assert all(simulated.open(hit.id) == inner.open(hit.id) for hit in hits)
    assert [hit.score for hit in hits] == [hit.score for hit in inner.search("Cora Quill", 5)]


def test_misleading_documents_contain_no_true_value(inner: Index):
    simulated = SimulatedIndex(inner, WHOLE, seed=4, misleading=1.0)
    for document in people():
        page = simulated.open(document.id)
        assert page.title == document.title
        assert document.title in page.text
        words = set(re.findall(r"[\w,]+", page.text))
        assert not values_of(document) & words, page.text
        assert len(page.text.split()) == len(document.text.split())


def test_hits_and_opened_pages_agree(inner: Index):
    simulated = SimulatedIndex(inner, WHOLE, seed=4, misleading=1.0)
    for hit in simulated.search("Edda Holt University", 5):
        text = simulated.open(hit.id).text
        assert hit.snippet in text
        assert simulated.open(hit.id, (3, 20)).text == text[3:20]
        assert hit.snippet in {other.snippet for other in simulated.search(hit.title, 10) if other.id == hit.id}


def writing(text: str) -> Fake:
    """An endpoint whose model writes this text."""
    return Fake(lambda *_: completion(text))


def test_a_model_can_write_the_documents(inner: Index):
    server = writing("Document 1: Mount Orr\nIt is 900 m high.\n\n**Document 2:** The Orr\nA river.\nIt is long.")
    with server.serving() as url, closing(OpenAIEndpoint(url, "tiny")) as writer:
        simulated = SimulatedIndex(inner, seed=1, generator=writer).at(0, background="Mount Orr is 900 m high.")
        first, second = simulated.search("How high is Mount Orr?", 2)
        assert (first.title, first.snippet) == ("Mount Orr", "It is 900 m high.")
        assert simulated.open(second.id).text == "A river. It is long."
        prompt = server.requests[0]["messages"][0]["content"]
        assert server.requests[0]["model"] == "tiny"
        assert all(words in prompt for words in ("How high is Mount Orr?", "useful", "900 m"))
        assert simulated.search("?!", 2) == []


def test_documents_written_by_a_model_are_replayed(inner: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ORR_KEY", "a-secret-key")
    server = writing("Document 1: Key\nThe key is a-secret-key.")
    with server.serving() as url:
        with closing(OpenAIEndpoint(url, "tiny", "ORR_KEY", cassette=Cassette(tmp_path / "c"))) as writer:
            hits = SimulatedIndex(inner, generator=writer).search("Mount Orr", 2)
        assert server.headers[0]["Authorization"] == "Bearer a-secret-key"
    with closing(OpenAIEndpoint(url, "tiny", cassette=Cassette(tmp_path / "c", "replay"))) as writer:
        assert SimulatedIndex(inner, generator=writer).search("Mount Orr", 2) == hits
    assert b"a-secret-key" not in (tmp_path / "c").read_bytes()
    assert "a-secret-key" not in hits[0].snippet


def test_a_model_that_writes_nothing_is_an_infrastructure_error(inner: Index):
    failing = pytest.raises(InfrastructureError, match="no documents")
    with writing(" \n ").serving() as url, closing(OpenAIEndpoint(url, "tiny")) as writer, failing:
        SimulatedIndex(inner, generator=writer).search("x", 5)
