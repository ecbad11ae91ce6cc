"""Ranks that are started by the workers of a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest

from nnc.errors import ArgumentError, RanksError, UsageError
from nnc.parallel import launch_with_dask, launch_with_ray
from nnc.parallel.clusters import launch_by, run_here

SCRIPT = """
import sys
from nnc import parallel
ranks = parallel.world()
print(ranks.allreduce([1.0 + ranks.rank])[0], *sys.argv[1:])
sys.exit(ranks.rank == 1 and sys.argv[1] == "fails")
"""
DASK = """
import sys
from dask.distributed import Client, LocalCluster
from nnc import parallel
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        print([parallel.launch_with_dask(client, 2, [sys.argv[1], told]) for told in ("well", "fails")])
"""
RAY = """
import sys, ray
from nnc import parallel
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
print([parallel.launch_with_ray(2, [sys.argv[1], told]) for told in ("well", "fails")])
"""
mpi = pytest.mark.skipif(find_spec("mpi4py") is None, reason="no mpi4py")


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return str(path)


@mpi
def test_workers_start_the_ranks_of_one_launch(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    machines = []
    with ThreadPoolExecutor(2) as workers:

        def submit(machine: int, command: Sequence[str]) -> Future[int]:
            machines.append(machine)
            return workers.submit(run_here, command)

        assert launch_by(submit, 2, 3, [script, "well"]) == 0
    assert machines == [0, 1]
    # Ranks print beside each other.
    assert capsys.readouterr().out.count("6.0") == 3


@mpi
def test_a_worker_that_cannot_start_its_ranks_is_named(script: str) -> None:
    def submit(machine: int, command: Sequence[str]) -> Future[int]:
        task = Future[int]()
        if machine == 1:
            task.set_exception(FileNotFoundError("no hydra_pmi_proxy"))
        return task

    with pytest.raises(RanksError, match=r"machine 1: got FileNotFoundError: no hydra_pmi_proxy; .*same place"):
        launch_by(submit, 2, 2, [script])


def test_what_cannot_be_launched_is_refused(script: str) -> None:
    with pytest.raises(UsageError, match="a cluster without workers"):
        launch_by(lambda machine, command: Future(), 0, 2, [script])
    with pytest.raises(ArgumentError, match=r"client=None; need a client of a cluster"):
        launch_with_dask(None, 2, [script])
    for launch in (lambda: launch_with_dask(None, 2, ["none.py"]), lambda: launch_with_ray(2, ["none.py"])):
        with pytest.raises(UsageError, match=r"no file none\.py"):
            launch()


@pytest.mark.parametrize(("package", "program"), [("distributed", DASK), ("ray", RAY)])
def test_clusters_of_both_libraries(package: str, program: str, script: str, tmp_path: Path) -> None:
    if find_spec(package) is None:
        pytest.skip(f"no {package}: pip install ray 'dask[distributed]'")
    launching = tmp_path / "launching.py"
    launching.write_text(program)
    environment = os.environ | {"NNC_THREADS": "1"}
    line = [sys.executable, str(launching), script]
    result = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert result.stdout.endswith("[0, 1]\n"), result.stderr
    assert result.stdout.count("3.0") == 4
