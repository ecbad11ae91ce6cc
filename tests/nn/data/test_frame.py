"""Data frames: columns made when they are needed, errors with row and column, and a place that resumes bit by bit."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from nnc import nn
from nnc.errors import ArgumentError, DataError, DTypeError, FormatError, UsageError
from nnc.nn.data import BatchState, DataFrame
from nnc.nn.data.frame import Prefetch

X = np.arange(40, dtype=np.float32).reshape(20, 2)
Y = np.arange(20, dtype=np.int32)


def plain(**options: int) -> DataFrame:
    return DataFrame({"x": X, "y": Y}, **options)


def noisy(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return values + random.standard_normal(2).astype(np.float32)


def positive(y: int) -> bool:
    return y % 3 > 0


def failing(y: int) -> int:
    return 1 // (13 - int(y))


def leaving(y: int) -> int:
    os._exit(3)


def rows_of(frame: DataFrame, epochs: int = 1) -> list[list[dict[str, object]]]:
    """All epochs as lists, which compare bit by bit."""
    return [[{name: np.asarray(value).tolist() for name, value in row.items()} for row in frame] for _ in range(epochs)]


PIPELINES = {
    "plain": lambda: plain(),
    "batches": lambda: plain().batch(6),
    "random values": lambda: plain(seed=4).map("x", noisy, random=True).batch(6),
    "shuffled": lambda: plain(seed=4).shuffle().map("x", noisy, random=True).batch(6, drop_last=True),
    "buffered": lambda: plain(seed=4).shuffle(5).batch(3),
    "filtered": lambda: plain(seed=4).shuffle().filter(positive, "y").batch(4),
    "sampled": lambda: plain(seed=4).map("x", noisy, random=True).sample(30, replace=True).batch(4),
    "repeated": lambda: plain(seed=4).shuffle().map("x", noisy, random=True).repeat(2).batch(7),
    "joined": lambda: plain(seed=4).shuffle().concatenate(plain().map("x", noisy, random=True)).batch(7),
    "side by side": lambda: plain(seed=4).shuffle().zip(DataFrame({"z": Y}).shuffle()).batch(7),
    "iterated": lambda: DataFrame.from_items(lambda: zip(X, Y), ("x", "y"), seed=2).shuffle(4).batch(6),
}


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_any_place_of_any_pipeline_is_taken_up_again(name: str, workers: int) -> None:
    whole = rows_of(PIPELINES[name](), epochs=2)
    frame = PIPELINES[name]().prefetch(3 if workers else 0, workers=max(workers, 1))
    assert rows_of(frame, epochs=2) == whole
    for position in range(1, len(whole[1])):
        frame.restore(BatchState(frame.state().seed, 1, position))
        assert rows_of(frame) == [whole[1][position:]]
    frame.close()


class TestPlace:
    def test_epochs_have_orders_of_their_own_and_the_seed_decides_them(self) -> None:
        first, second = rows_of(plain(seed=1).shuffle(), epochs=2)
        assert first != second
        assert sorted(row["y"] for row in first) == Y.tolist() == sorted(row["y"] for row in second)
        assert rows_of(plain(seed=1).shuffle()) == [first] == rows_of(plain().shuffle(seed=1))
        assert rows_of(plain(seed=2).shuffle()) != [first]

    def test_a_buffer_moves_a_row_no_further_ahead_than_it_holds(self) -> None:
        order = [row["y"] for row in plain(seed=1).shuffle(4)]
        assert sorted(order) == Y.tolist() != order
        assert all(row <= place + 4 for place, row in enumerate(order))

    def test_a_loop_that_is_left_early_goes_on_and_leaves_no_thread(self) -> None:
        frame = plain().prefetch(4, workers=2)
        for row in frame:
            if row["y"] == 5:
                break
        assert wait_until(lambda: not working())
        assert (frame.state(), next(iter(frame))["y"]) == (BatchState(0, 0, 6), 6)

    def test_a_row_waits_for_its_turn_to_end(self) -> None:
        frame = plain()
        assert frame.next_row() is frame.next_row()
        frame.advance()
        assert frame.next_row()["y"] == 1

    @pytest.mark.parametrize("state", [BatchState(0, 0, 20), BatchState(-1), BatchState(0, 0, -1)], ids=str)
    def test_a_place_that_is_not_there_is_told(self, state: BatchState) -> None:
        with pytest.raises(DataError, match="resume with the data"):
            plain().restore(state)

    def test_a_place_behind_the_end_of_a_filter_is_told(self) -> None:
        frame = plain().filter(positive, "y")
        frame.restore(BatchState(0, 0, 100))
        with pytest.raises(DataError, match="position 100 in an epoch of 13 rows"):
            next(iter(frame))

    def test_copies_and_pickles_stand_where_the_frame_stood(self) -> None:
        frame = plain().map("x", noisy, random=True).shuffle().batch(4).prefetch(2)
        next(iter(frame))
        rest = [rows_of(one) for one in (copy.copy(frame), pickle.loads(pickle.dumps(frame)), frame)]
        assert rest[0] == rest[1] == rest[2]
        assert len(rest[0][0]) == 4


class TestColumns:
    def test_values_are_made_only_when_they_are_asked_for(self) -> None:
        seen = list[int]()
        frame = plain().map("z", lambda y: seen.append(y) or y, "y").select("x")
        rows_of(frame)
        assert (frame.columns, seen) == (("x",), [])

    def test_a_column_that_two_others_read_is_made_once(self) -> None:
        seen = list[int]()
        frame = plain().map("a", lambda y: seen.append(int(y)) or int(y), "y")
        frame = frame.map("b", lambda a: a + 1, "a").map("c", lambda a, b: a * b, "a", "b")
        assert [row["c"] for row in frame] == [y * (y + 1) for y in range(20)]
        assert seen == list(range(20))

    def test_batches_are_copies(self) -> None:
        batch = next(iter(plain().batch(4)))
        batch["x"][...] = -1
        assert X[0, 0] == 0

    def test_ragged_rows_are_filled_up_and_masked(self) -> None:
        (batch,) = DataFrame({"t": [[1, 2, 3], [4], []]}).batch(3, pad={"t": -1})
        np.testing.assert_array_equal(batch["t"], [[1, 2, 3], [4, -1, -1], [-1, -1, -1]])
        np.testing.assert_array_equal(batch["t_mask"], [[True] * 3, [True, False, False], [False] * 3])

    def test_rows_of_one_length_come_together(self) -> None:
        lengths = np.random.default_rng(0).permutation(np.repeat(np.arange(1, 9), 4))
        frame = DataFrame({"t": [np.ones(length, np.int32) for length in lengths]}, seed=3)
        batches = list(frame.batch(4, pad={"t": 0}, by_length="t"))
        assert all(batch["t_mask"].all() for batch in batches)
        widths = [batch["t"].shape[1] for batch in batches]
        assert sorted(widths) == list(range(1, 9)) != widths

    def test_all_of_an_epoch_as_arrays(self) -> None:
        frame = plain().batch(6)
        np.testing.assert_array_equal(frame.arrays()["x"], X)
        np.testing.assert_array_equal(plain().in_memory().labels, Y)
        assert frame.state() == BatchState(0)

    def test_it_says_what_it_is(self) -> None:
        assert repr(plain().batch(6)) == "DataFrame(x, y: 4 batches)"
        assert repr(plain().filter(positive, "y")) == "DataFrame(x, y: ? rows)"
        assert (len(plain()), plain().filter(positive, "y").rows, bool(plain().filter(positive, "y"))) == (
            20,
            None,
            True,
        )


class Pairs:
    """A data set as those of torch are: a length, and items."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, place: int) -> tuple[np.ndarray, int]:
        return X[place], int(Y[place])


def test_data_sets_of_other_libraries_are_read_by_length_and_item() -> None:
    frame = DataFrame.from_items(Pairs(), ("x", "y"))
    assert (frame.rows, [row["y"] for row in frame]) == (3, [0, 1, 2])
    rows = [{"text": "a", "label": 1}, {"text": "b", "label": 0}]
    (batch,) = DataFrame.from_items(rows).batch(2)
    assert (batch["text"].tolist(), batch["label"].tolist()) == (["a", "b"], [1, 0])


class TestItems:
    def test_an_iterable_begins_again_in_each_epoch(self) -> None:
        assert [len(rows) for rows in rows_of(DataFrame.from_items({1: 0, 2: 0}.keys()), 2)] == [2, 2]
        with pytest.raises(DataError, match="a generator, which ends with the first epoch.*give the function"):
            DataFrame.from_items(one for one in range(3))

    @pytest.mark.parametrize("items", [[], (), lambda: iter(()), range(0)], ids=["list", "tuple", "function", "range"])
    def test_no_items_are_told(self, items: object) -> None:
        with pytest.raises(DataError, match="no rows"):
            DataFrame.from_items(items)

    def test_an_item_that_lacks_a_column_is_told_with_its_row(self) -> None:
        with pytest.raises(DataError, match="no column 'b' in row 1; need one of a"):
            rows_of(DataFrame.from_items([{"a": 1, "b": 2}, {"a": 3}]))
        with pytest.raises(DataError, match="1 values in row 1; need 2"):
            rows_of(DataFrame.from_items([(1, 2), (3,)]))
        with pytest.raises(DataError, match="3 names for items of 2"):
            DataFrame.from_items([(1, 2)], ("a", "b", "c"))


REFUSED = {
    "no columns": (lambda: DataFrame({}), DataError, "no columns"),
    "items by name": (lambda: DataFrame.from_items({"x": X}), ArgumentError, "DataFrame"),
    "no rows": (lambda: DataFrame({"x": []}), DataError, "no rows"),
    "unequal lengths": (lambda: DataFrame({"x": X, "y": Y[:3]}), DataError, "x of 20, y of 3"),
    "a single value": (lambda: DataFrame({"x": np.float32(3)}), ArgumentError, "an array or a list"),
    "a column that is not there": (lambda: plain().map("z", noisy, "xs"), DataError, "no column 'xs'.*mean 'x'"),
    "a filter of nothing": (lambda: plain().filter(bool), ArgumentError, "no columns"),
    "a selection that is not there": (lambda: plain().select("z"), DataError, "need one of x, y"),
    "too large a sample": (lambda: plain().sample(21), DataError, "21 rows of 20.*replace=True"),
    "two columns of a name": (lambda: plain().zip(plain()), DataError, "two columns 'x'"),
    "unequal frames": (lambda: plain().zip(DataFrame({"z": Y[:3]})), DataError, "frames of 3 and 20 rows"),
    "other columns": (lambda: plain().concatenate(DataFrame({"z": Y})), DataError, "columns x, y and z"),
    "a batch of nothing": (lambda: plain().batch(0), ArgumentError, "size=0"),
    "a negative buffer": (lambda: plain().shuffle(-1), ArgumentError, "buffer=-1"),
    "a mask of a name": (lambda: DataFrame({"x": X, "x_mask": X}).batch(2, pad={"x": 0}), DataError, "for the mask"),
    "padding of nothing": (lambda: plain().batch(2, pad={"t": 0}), DataError, "no column 't'"),
}


class TestErrors:
    @pytest.mark.parametrize("case", REFUSED)
    def test_what_cannot_be_is_refused_at_once(self, case: str) -> None:
        make, error, told = REFUSED[case]
        with pytest.raises(error, match=told):
            make()

    @pytest.mark.parametrize("prefetch", [Prefetch(), Prefetch(3, 2)], ids=str)
    def test_an_error_of_a_function_says_its_column_and_row_when_its_turn_comes(self, prefetch: Prefetch) -> None:
        frame = plain().map("z", failing, "y").prefetch(prefetch.depth, workers=prefetch.workers)
        seen = []
        with pytest.raises(DataError, match=r"map 'z': got ZeroDivisionError: .* in row 13") as caught:
            seen.extend(row["y"] for row in frame)
        assert (seen, type(caught.value.__cause__)) == (list(range(13)), ZeroDivisionError)
        assert frame.state() == BatchState(0, 0, 13)

    def test_an_error_of_a_filter_says_its_row_when_its_turn_comes(self) -> None:
        frame, seen = plain().filter(failing, "y"), []
        with pytest.raises(DataError, match="filter: got ZeroDivisionError: .* in row 13"):
            seen.extend(row["y"] for row in frame)
        assert seen == [12]

    def test_the_row_is_that_of_the_source_whatever_stands_between(self) -> None:
        frame = plain().shuffle().concatenate(plain()).map("z", failing, "y").batch(4)
        with pytest.raises(DataError, match="in row 13 of frame 0"):
            rows_of(frame)
        frame = plain().batch(4).map("z", lambda y: failing(y[1]), "y")
        with pytest.raises(DataError, match="in the batch from row 12"):
            rows_of(frame)

    def test_ragged_rows_are_told_with_the_way_out(self) -> None:
        with pytest.raises(DataError, match=r"column 't': got rows of shapes \[1\] and \[2\].*pad={'t': 0}"):
            rows_of(DataFrame({"t": [[1, 2], [3]]}).batch(2))
        with pytest.raises(DataError, match="rows without a length"):
            rows_of(plain().batch(2, pad={"y": 0}))
        with pytest.raises(DataError, match=r"steps of shapes \[1\] and \[2\]"):
            rows_of(DataFrame({"t": [np.ones((2, 1)), np.ones((1, 2))]}).batch(2, pad={"t": 0}))

    @pytest.mark.parametrize("values", [[1, "a"], [object(), object()], [{}, {}]], ids=["text", "objects", "mappings"])
    def test_values_that_are_no_array_together_are_told(self, values: list[object]) -> None:
        with pytest.raises(DTypeError, match="column 'v'.*need numbers or texts"):
            rows_of(DataFrame({"v": values}).batch(2))

    def test_frames_that_end_apart_are_told(self) -> None:
        with pytest.raises(DataError, match="frames of unequal lengths"):
            rows_of(plain().zip(DataFrame({"z": Y}).filter(positive, "z")))


def wait_until(condition: object, seconds: float = 10.0) -> bool:
    """Whether it becomes true: threads end in their own time."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return bool(condition())


def working() -> bool:
    """Whether a thread of a frame is there."""
    return any(thread.name.startswith("nnc prefetch") for thread in threading.enumerate())


class TestWorkers:
    def test_no_more_rows_are_made_ahead_than_were_asked_for(self) -> None:
        made = list[int]()
        frame = plain().map("z", lambda y: made.append(int(y)), "y").prefetch(4, workers=2)
        frame.next_row()
        assert wait_until(lambda: len(made) == 5)
        time.sleep(0.05)
        assert sorted(made) == [0, 1, 2, 3, 4]
        frame.close()

    @pytest.mark.parametrize("end", ["close", "collect", "with"])
    def test_threads_end_with_the_frame(self, end: str) -> None:
        frame = plain().prefetch(4, workers=3)
        frame.next_row()
        assert working()
        if end == "close":
            frame.close()
        elif end == "with":
            with frame:
                frame.next_row()
        else:
            del frame
            gc.collect()
        assert wait_until(lambda: not working())

    def test_an_interrupt_keeps_the_place_and_ends_the_threads(self) -> None:
        frame = plain().prefetch(2, workers=2)
        seen = []

        def read() -> None:
            for row in frame:
                seen.append(row["y"])
                if len(seen) == 3:
                    signal.raise_signal(signal.SIGINT)

        with pytest.raises(KeyboardInterrupt):
            read()
        assert wait_until(lambda: not working())
        assert [*seen, *(row["y"] for row in frame)] == Y.tolist()

    def test_processes_give_the_same_rows_and_errors_and_end(self) -> None:
        whole = rows_of(plain(seed=1).map("x", noisy, random=True).shuffle().batch(4), 2)
        frame = plain(seed=1).map("x", noisy, random=True).shuffle().batch(4).prefetch(2, workers=2, processes=True)
        assert rows_of(frame, 2) == whole
        workers = [*frame._workers.executor._processes.values()]
        frame.close()
        assert wait_until(lambda: not any(worker.is_alive() for worker in workers))

    def test_errors_of_processes_are_those_of_threads(self) -> None:
        frame = plain().map("z", failing, "y").filter(positive, "y").prefetch(1, processes=True)
        with pytest.raises(DataError, match=r"map 'z': got ZeroDivisionError: .* in row 13"):
            rows_of(frame)
        dying = plain().map("z", leaving, "y").prefetch(1, processes=True)
        with pytest.raises(DataError, match="a worker process that ended"):
            rows_of(dying)
        with pytest.raises(DataError, match="need rows that can be sent to a process.*top of a module"):
            rows_of(plain().map("z", lambda y: y, "y").prefetch(1, processes=True))

    def test_a_forked_child_takes_its_own_workers(self) -> None:
        code = (
            "import os, numpy as np\n"
            "from nnc.nn.data import DataFrame\n"
            "frame = DataFrame({'y': np.arange(6)}).prefetch(3, workers=2)\n"
            "first = [frame.next_row()['y']]; frame.advance()\n"
            "child = os.fork()\n"
            "rest = [row['y'] for row in frame]\n"
            "assert rest == [1, 2, 3, 4, 5], rest\n"
            "if child: assert os.waitpid(child, 0)[1] == 0\n"
            "else: os._exit(0)\n"
        )
        run = subprocess.run([sys.executable, "-P", "-W", "ignore", "-c", code], capture_output=True, timeout=60)
        assert (run.returncode, run.stderr) == (0, b"")


def frame_to_learn() -> DataFrame:
    frame = DataFrame({"x": X / 40, "y": Y % 3}, seed=3).map("x", noisy, random=True)
    return frame.shuffle(8).batch(6).prefetch(3, workers=2)


def network() -> nn.Model:
    layer = nn.Sequential(nn.Dense(8), nn.Tanh(), nn.Dropout(0.2), nn.Dense(3))
    return nn.Model(layer, (2,), optimizer=nn.Adam(0.01), backend="reference")


class TestFit:
    def test_a_run_that_was_broken_off_and_resumed_is_the_same_bit_by_bit(self, tmp_path) -> None:
        whole = network()
        whole.fit(frame_to_learn(), epochs=3)
        for stop in (1, 4, 6, 9):
            model, frame = network(), frame_to_learn()
            model.fit(frame, epochs=3, stop=lambda model=model, stop=stop: model.updates == stop)
            nn.save_checkpoint(tmp_path / "a.safetensors", model, nn.position_of(model, frame))
            resumed, frame = network(), frame_to_learn()
            position = nn.load_checkpoint(tmp_path / "a.safetensors", resumed)
            frame.restore(position.batches)
            resumed.fit(frame, epochs=3 - position.batches.epoch)
            for path, value in whole.state_dict().items():
                np.testing.assert_array_equal(resumed.state_dict()[path], value)

    def test_accumulated_batches_that_break_off_are_drawn_again(self) -> None:
        frame = plain().map("y", lambda y: y % 3).map("x", lambda x: x if x[0] < 24 else x / failing(13)).batch(4)
        model = network()
        with pytest.raises(DataError, match="map 'x': got ZeroDivisionError: .* in row 12"):
            model.fit(frame, epochs=1, accumulate=4)
        assert (model.updates, frame.state()) == (0, BatchState(0))

    def test_threads_end_with_fit(self) -> None:
        network().fit(frame_to_learn(), epochs=2)
        assert wait_until(lambda: not working())

    def test_columns_of_inputs_and_targets_are_named_or_the_only_two(self) -> None:
        three = plain().map("z", positive, "y").map("y", lambda y: y % 3)
        network().fit(three.examples("x", "y").batch(5), epochs=1)
        with pytest.raises(UsageError, match=r"got columns x, y, z.*frame.examples"):
            network().fit(three.batch(5), epochs=1)
        with pytest.raises(UsageError, match=r"a frame without batches.*frame.batch"):
            network().fit(plain(), epochs=1)
        with pytest.raises(UsageError, match="batches beside targets"):
            network().fit(plain().batch(5), Y, epochs=1)

    def test_a_frame_validates_and_finds_a_rate(self) -> None:
        model, frame = network(), frame_to_learn()
        history = model.fit(frame, epochs=1, validation_data=DataFrame({"x": X, "y": Y % 3}))
        assert len(history["val_loss"]) == 1
        state = frame.state()
        nn.find_rate(model, frame, steps=5)
        assert frame.state() == state


def test_tables_are_read_by_pyarrow(tmp_path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="the extra data is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra data is not installed")
    (tmp_path / "a.csv").write_text("n,x,town\n1,0.5,north\n2,,\n")
    frame = DataFrame.from_csv(tmp_path / "a.csv")
    (batch,) = frame.batch(2)
    assert (batch["n"].tolist(), batch["town"].tolist()) == ([1, 2], ["north", ""])
    np.testing.assert_array_equal(batch["x"], [0.5, np.nan])
    parquet.write_table(arrow.table({"t": [[1, 2], [3]], "y": [1.0, 2.0], "z": ["a", "b"]}), tmp_path / "a.parquet")
    frame = DataFrame.from_parquet(tmp_path / "a.parquet", ["t", "y"])
    (batch,) = frame.batch(2, pad={"t": 0})
    assert (frame.columns, batch["t"].tolist(), batch["y"].tolist()) == (("t", "y"), [[1, 2], [3, 0]], [1.0, 2.0])


def test_few_bytes_of_very_many_cells_are_refused(tmp_path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="the extra data is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra data is not installed")
    path, zeros = tmp_path / "zeros.parquet", arrow.array(np.zeros(12_000_000, np.int8))
    parquet.write_table(arrow.table({"a": zeros, "b": zeros, "c": zeros}), path)
    with pytest.raises(FormatError, match=r"36,000,000 cells; need at most [23][0-9],[0-9,]+ in a file of its size"):
        DataFrame.from_parquet(path)
    assert len(DataFrame.from_parquet(path, ["b"])) == 12_000_000


def test_a_csv_file_has_a_name_for_each_column(tmp_path) -> None:
    pytest.importorskip("pyarrow", reason="the extra data is not installed")
    (tmp_path / "a.csv").write_text("x,x,y\n1,2,3\n")
    with pytest.raises(FormatError, match=r"two columns 'x'; need a name for each column"):
        DataFrame.from_csv(tmp_path / "a.csv")


@pytest.mark.parametrize("read", [DataFrame.from_csv, DataFrame.from_parquet], ids=["csv", "parquet"])
def test_files_that_are_no_tables_are_told(tmp_path, read) -> None:
    pytest.importorskip("pyarrow", reason="the extra data is not installed")
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n1\n")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(FormatError, match=r"bad\.csv"):
        read(tmp_path / "bad.csv")
    with pytest.raises(FormatError, match="absent"):
        read(tmp_path / "absent")
    if read == DataFrame.from_csv:
        with pytest.raises(DataError, match="no column 'c'; need one of a, b"):
            read(tmp_path / "a.csv", ["c"])
        (tmp_path / "a.csv").write_text("a,b\n")
        with pytest.raises(DataError, match="no rows"):
            read(tmp_path / "a.csv")
