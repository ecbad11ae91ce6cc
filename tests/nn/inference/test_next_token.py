from __future__ import annotations

import numpy as np
import pytest

from nnc.errors import ArgumentError, NotFiniteError
from nnc.nn.inference.next_token import TokenChoice, best_tokens

SCORES = np.log(np.array([0.1, 0.4, 0.2, 0.3]))


def test_without_options_the_best_token_is_taken_and_the_first_of_equal_ones() -> None:
    generator = np.random.default_rng(0)
    assert TokenChoice().pick(SCORES, generator) == 1
    assert TokenChoice().pick(np.zeros(5), generator) == 0


def test_the_likeliest_few_share_what_the_others_lose() -> None:
    tokens, shares = TokenChoice(top_k=2).likely(SCORES)
    assert tokens.tolist() == [1, 3]
    np.testing.assert_allclose(shares, [4 / 7, 3 / 7])
    tokens, shares = TokenChoice(top_p=0.69).likely(SCORES)
    assert tokens.tolist() == [1, 3]
    tokens, _ = TokenChoice(top_p=0.71).likely(SCORES)
    assert tokens.tolist() == [1, 3, 2]
    tokens, shares = TokenChoice(temperature=0.5).likely(SCORES)
    np.testing.assert_allclose(shares, np.array([16, 9, 4, 1]) / 30)


def test_tokens_are_drawn_as_often_as_they_are_likely() -> None:
    generator = np.random.default_rng(0)
    drawn = [TokenChoice(temperature=1.0).pick(SCORES, generator) for _ in range(4000)]
    np.testing.assert_allclose(np.bincount(drawn) / 4000, [0.1, 0.4, 0.2, 0.3], atol=0.03)


def test_a_share_too_small_for_any_token_leaves_the_best_one() -> None:
    assert TokenChoice(top_p=1e-9).likely(SCORES)[0].tolist() == [1]


@pytest.mark.parametrize(
    "options", [{"temperature": 0.0}, {"temperature": -1.0}, {"top_p": 0.0}, {"top_p": 1.5}, {"top_k": 0}, {"seed": -1}]
)
def test_options_out_of_their_range_are_told(options: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(options))):
        TokenChoice(**options)  # type: ignore[arg-type]  # that is the point


def test_scores_that_are_no_numbers_choose_nothing() -> None:
    with pytest.raises(NotFiniteError, match="scores that are not numbers"):
        TokenChoice().pick(np.array([0.0, np.nan]), np.random.default_rng(0))


def test_few_tokens_are_sorted_and_they_are_those_of_all() -> None:
    scores = np.random.default_rng(0).integers(0, 50, 5000).astype(np.float64)
    order = np.argsort(-scores, kind="stable")
    for count in (1, 7, 1024, 4999, 5000, 6000):
        np.testing.assert_array_equal(best_tokens(scores, count), order[:count])


@pytest.mark.parametrize(
    "choice",
    [
        TokenChoice(temperature=1.0),
        TokenChoice(temperature=9.0),
        TokenChoice(temperature=9.0, top_p=0.9),
        TokenChoice(temperature=9.0, min_p=0.01),
        TokenChoice(top_p=0.5),
        TokenChoice(top_k=2000, temperature=3.0),
    ],
    ids=str,
)
def test_what_is_drawn_of_few_is_what_is_drawn_of_all(choice: TokenChoice) -> None:
    scores = np.random.default_rng(1).standard_normal(5000) * 6
    tokens, shares = choice.likely(scores)
    sums = np.cumsum(shares)[:-1]
    generator, other = choice.generator(0), choice.generator(0)
    for _ in range(300):
        assert choice.pick(scores, generator) == tokens[np.searchsorted(sums, other.random(), side="right")]
