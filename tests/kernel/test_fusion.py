import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from butlers.kernel.ranking import Fused, reciprocal_rank_fusion, rrf_score

RANKING = st.lists(st.integers(0, 15), unique=True, max_size=12)


@pytest.mark.contract("R07.3")
def test_the_score_is_the_sum_of_reciprocal_ranks() -> None:
    assert rrf_score(1, 3) == 1 / 61 + 1 / 63
    assert rrf_score(2, 5, k=10) == 1 / 12 + 1 / 15


@pytest.mark.contract("R07.3")
def test_what_one_ranking_lacks_has_the_rank_after_the_limit() -> None:
    assert reciprocal_rank_fusion(["a", "b"], ["b", "c"], limit=5) == [
        Fused("b", 1 / 62 + 1 / 61, 2, 1),
        Fused("a", 1 / 61 + 1 / 66, 1, 6),
        Fused("c", 1 / 66 + 1 / 62, 6, 2),
    ]


@pytest.mark.contract("R07.3")
def test_equal_scores_go_by_semantic_rank() -> None:
    fused = reciprocal_rank_fusion(["near", "far"], ["far", "near"], limit=2)
    assert fused[0].rrf_score == fused[1].rrf_score
    assert [one.id for one in fused] == ["near", "far"]


def test_only_the_first_of_each_ranking_count() -> None:
    assert [one.id for one in reciprocal_rank_fusion("abc", "xyz", limit=1)] == ["a", "x"]
    assert reciprocal_rank_fusion([], [], limit=10) == []


def test_an_id_listed_twice_keeps_its_better_rank() -> None:
    assert reciprocal_rank_fusion(["a", "b", "a"], [], limit=3)[0] == Fused(
        "a", rrf_score(1, 4), 1, 4
    )


@pytest.mark.contract("R07.3")
@settings(max_examples=50)
@given(RANKING, RANKING, st.integers(1, 12))
def test_fusion_holds_every_id_once_in_the_order_promised(
    semantic: list[int], keyword: list[int], limit: int
) -> None:
    fused = reciprocal_rank_fusion(semantic, keyword, limit)
    assert sorted(one.id for one in fused) == sorted({*semantic[:limit], *keyword[:limit]})
    keys = [(-one.rrf_score, one.semantic_rank) for one in fused]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)
    assert all(one.rrf_score == rrf_score(one.semantic_rank, one.keyword_rank) for one in fused)
