"""A slice of scripts/fuzz files, and that it would see what it looks for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tests.fuzz.files import campaign
from tests.fuzz.files.campaign import READ, Report, read_file, read_files
from tests.fuzz.files.kinds import KINDS, Kind
from tests.fuzz.files.mutation import MUTATIONS, mutated

from nnc.errors import AttributeValueError, DTypeError, FormatError

FILES = 900


def test_mutated_files_are_read_or_refused_with_our_own_errors() -> None:
    report = read_files(range(FILES))
    assert report.failures == []
    assert report.files == FILES
    for kind in KINDS:
        assert report.outcomes[kind.name, READ] > 0
    assert sum(count for (_, outcome), count in report.outcomes.items() if outcome != READ) > FILES // 5


FOUND = {
    "an encoder of labels behind a node that makes a list of maps": 1560,
    "places that are complex numbers": 93823,
    "a count that is a complex number": 490911,
    "as many samples of a cell as 64 bits count": 240231,
    "an element type that there is not": 122055,
    "a number for a tensor": 135503,
}


@pytest.mark.parametrize("seed", FOUND.values(), ids=[name.replace(" ", "-") for name in FOUND])
def test_what_was_found_is_refused(seed: int, tmp_path: Path) -> None:
    (kind,) = (kind for kind in KINDS if kind.name == "ONNX")
    random = Random(seed)
    (tmp_path / "file").write_bytes(kind.mutate(random, random.choice(kind.whole())))
    with pytest.raises((FormatError, DTypeError, AttributeValueError)):
        kind.read(tmp_path / "file")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name.replace(" ", "-"))
def test_a_whole_file_is_read(kind: Kind, tmp_path: Path) -> None:
    for number, content in enumerate(kind.whole()):
        place = tmp_path / str(number)
        place.write_bytes(content)
        kind.read(place)


@pytest.mark.parametrize(("error", "told"), [(KeyError("x"), 1), (MemoryError(), 1), (FormatError("f"), 0)])
def test_only_our_own_errors_are_no_failures(
    error: Exception, told: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def read(place: Path) -> None:
        raise error

    monkeypatch.setattr(campaign, "KINDS", (replace(KINDS[0], read=read),))
    report = Report()
    read_file(0, report, tmp_path)
    assert len(report.failures) == told


def test_mutations_are_fixed_by_the_seed_and_change_something() -> None:
    data = KINDS[2].whole()[0]
    assert mutated(Random(5), data) == mutated(Random(5), data)
    for mutation in MUTATIONS:
        assert any(mutation(Random(seed), data) != data for seed in range(9))
