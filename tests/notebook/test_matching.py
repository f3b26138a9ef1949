"""What a query finds: words, their beginnings, other spellings, scripts without spaces."""

import math
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butlers.notebook import (
    MemoryManager,
    Notebook,
    ScoredMemory,
    fast_search,
    open_notebook,
    save_memory,
)


def keys(found: list[ScoredMemory]) -> list[str]:
    return [result.memory.key for result in found]


def only(found: list[ScoredMemory]) -> tuple[str, float, str]:
    (result,) = found
    return result.memory.key, result.score, result.source


@pytest.mark.contract("L24")
@pytest.mark.parametrize("query", ["kuber", "KUBER", "Kubernete", "k", "ku", "kuber?", "the kuber"])
def test_a_word_is_found_by_its_beginning(db: Notebook, query: str) -> None:
    save_memory(db, "a", "cluster", "kubernetes runs here")
    save_memory(db, "a", "lunch", "noodles")
    save_memory(db, "b", "other", "kubernetes too")
    assert keys(fast_search(db, "a", query)) == ["cluster"]


def test_the_word_itself_comes_before_words_that_begin_with_it(db: Notebook) -> None:
    save_memory(db, "a", "long", "somewhere in many other words there is one test of the thing")
    for number in range(30):
        save_memory(db, "a", f"k{number}", "testing testing")
    assert keys(fast_search(db, "a", "test"))[0] == "long"
    assert len(fast_search(db, "a", "test")) == 10


def test_a_word_never_written_counts_by_its_beginning_beside_common_words(db: Notebook) -> None:
    for number in range(40):
        save_memory(db, "a", f"k{number}", "cluster")
    save_memory(db, "a", "wanted", "kubernetes and a great many words besides, among them cluster")
    assert keys(fast_search(db, "a", "kuber cluster"))[0] == "wanted"


def test_beginnings_stay_within_the_category(manager: MemoryManager) -> None:
    manager.save("a", "todo", "remind me of kubernetes")
    manager.save("a", "password", "secret of kubernetes")
    assert keys(manager.search_fast("a", "kuber", {"category": "task"})) == ["todo"]


def test_what_begins_no_word_is_found_inside_one(db: Notebook) -> None:
    save_memory(db, "a", "cluster", "kubernetes")
    save_memory(db, "a", "lunch", "noodles")
    save_memory(db, "b", "other", "kubernetes")
    assert keys(fast_search(db, "a", "netes")) == ["cluster"]
    assert fast_search(db, "a", "es") == []


@pytest.mark.parametrize(
    ("key", "content", "queries"),
    [
        ("zh", "数据库服务器的端口是5432", ["端口", "服务器端口是多少", "库"]),
        ("ja", "サーバーの設定は東京にあります", ["設定", "東京の設定はどこですか", "サーバー"]),
        ("ko", "쿠버네티스를 서울에서 운영한다", ["쿠버네티스", "서울은", "쿠버네티스가"]),
        ("th", "รหัสผ่านอยู่ในตู้เซฟ", ["รหัสผ่าน", "ตู้เซฟ"]),
        ("ru", "Пароль лежит в сейфе", ["пароль", "сейф", "ПАРОЛЬ"]),
        ("de", "Die Schlüssel liegen in der Küche", ["schlussel", "KÜCHE", "Schlüss"]),
    ],
)
def test_every_script_is_found_by_its_words(
    db: Notebook, key: str, content: str, queries: list[str]
) -> None:
    save_memory(db, "a", key, content)
    save_memory(db, "a", "other", "天気 てんき 날씨 อากาศ погода Wetter")
    for query in queries:
        assert keys(fast_search(db, "a", query)) == [key], query


def test_a_known_word_is_found_inside_others_where_no_spaces_are(db: Notebook) -> None:
    save_memory(db, "a", "inside", "本番環境設定一覧")
    save_memory(db, "a", "alone", "設定")
    assert keys(fast_search(db, "a", "設定")) == ["alone", "inside"]


@pytest.mark.contract("K-I17")
@pytest.mark.parametrize(
    "query",
    ["to be", "or", "TO BE?", "cafe", "café", "CAFÉ", "cafe\u0301", "caf", "c", "日本", "本語"]
    + ["café-tables", "tables", "tab", "«cafe»", "z" * 80, "zzz"],
)
def test_one_note_alone_is_ranked_by_the_index_alone(db: Notebook, query: str) -> None:
    save_memory(db, "a", "k", "to be or not in the café-tables 日本語 " + "z" * 80)
    assert only(fast_search(db, "a", query)) == ("k", 1.0, "fts5")


@pytest.mark.contract("K-I17")
@pytest.mark.parametrize("query", ["to be", "or not", "k", "z" * 80, "z" * 70])
def test_what_has_no_weight_leaves_the_score_to_the_index(db: Notebook, query: str) -> None:
    save_memory(db, "a", "k", "to be or not to be " + "z" * 80)
    save_memory(db, "a", "filler", "noodles")
    assert only(fast_search(db, "a", query)) == ("k", 1.0, "fts5")


@pytest.mark.contract("K-I17")
@pytest.mark.parametrize(
    "query", ["café", "cafe", "CAFE", "cafe\u0301", "caf", "afe", "cafe to be", "(café)"]
)
def test_however_a_word_is_written_it_weighs_the_same(db: Notebook, query: str) -> None:
    save_memory(db, "a", "place", "le café")
    save_memory(db, "a", "filler", "noodles")
    cosine = 1 / math.sqrt(3)  # place, le and café stand in one note of two each
    assert only(fast_search(db, "a", query)) == (
        "place",
        pytest.approx(0.4 + 0.6 * cosine),
        "combined",
    )


@pytest.mark.contract("K-I17")
def test_a_blended_score_says_so_whatever_its_cosine(db: Notebook) -> None:
    save_memory(db, "a", "both", "alpha beta")
    for number in range(3):
        save_memory(db, "a", f"k{number}", "alpha")
    found = fast_search(db, "a", "alpha beta")
    assert keys(found)[0] == "both"
    # Every note holds alpha, which weighs nothing; so the others have no cosine at all.
    assert [r.score for r in found[1:]] == pytest.approx(
        [0.4 * (1 - 0.9 * n / 4) for n in (1, 2, 3)]
    )
    assert {r.source for r in found} == {"combined"}


@pytest.mark.contract("K-I17")
def test_the_words_of_a_query_that_are_nowhere_dilute_the_others(db: Notebook) -> None:
    save_memory(db, "a", "place", "tea")
    save_memory(db, "a", "filler", "noodles")
    (alone,), (diluted,) = fast_search(db, "a", "tea"), fast_search(db, "a", "tea zebra")
    assert diluted.score < alone.score
    assert diluted.source == "combined"


_ASKED = st.lists(
    st.sampled_from(
        ["tea", "te", "ea", "thé", "THE", "to be", "café-bar", "日本", "本語", "の", "x", "?", "🎉"]
    ),
    max_size=4,
)


@pytest.mark.contract("K-I17", "K-I3")
@given(_ASKED)
def test_whatever_is_asked_every_score_is_a_rank_or_a_blend(asked: list[str]) -> None:
    with closing(open_notebook(":memory:").sqlite) as sqlite:
        db = Notebook(sqlite)
        for number, content in enumerate(
            ["the tea", "thé café", "bar 日本語の本", "teapot to be x"]
        ):
            save_memory(db, "a", f"n{number}", content)
        found = fast_search(db, "a", " ".join(asked))
    ranks = [1 - 0.9 * place / max(len(found), 2) for place in range(len(found))]
    scores = [result.score for result in found]
    assert scores == sorted(scores, reverse=True)
    if {result.source for result in found} == {"fts5"}:
        assert scores == pytest.approx(ranks)
    else:
        assert {result.source for result in found} <= {"combined"}
        assert all(0.4 * ranks[-1] - 1e-9 <= score <= 1 + 1e-9 for score in scores)
