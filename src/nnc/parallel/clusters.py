"""Ranks that the workers of Dask or Ray start, instead of mpiexec over ssh.

    launch_with_dask(client, 4, ["train.py", "--epochs", "3"])      the exit code
    launch_with_ray(4, ["train.py", "--epochs", "3"])               after ray.init()

mpiexec of MPICH (the wheel's) tells what should run on each machine, and tasks of the cluster run it: one on each
machine that has a worker. From there on ranks are as those of `nnc launch`: they talk by MPI, print through the
launch, and end together. The script and this environment stand at the same place on every machine.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Protocol

from nnc.arguments import Count, checked, shown
from nnc.errors import ArgumentError, BackendError, RanksError, UsageError
from nnc.parallel.launching import check_program, command_of

PROXY, ALL_TOLD = b"HYDRA_LAUNCH:", b"HYDRA_LAUNCH_END"
POLLING_SECONDS = 0.05


class ClusterTask(Protocol):
    """A task on a worker, as the futures of both libraries are."""

    def done(self) -> bool:
        """Whether it has ended."""

    def result(self) -> int:
        """The exit code of its command; raises what kept it from running."""


# Runs a command on a machine: (number of the machine, command).
Submit = Callable[[int, Sequence[str]], ClusterTask]


def run_here(command: Sequence[str]) -> int:
    """On a worker: a command of mpiexec's, by this environment's own program of that name."""
    own = Path(sys.executable).parent / Path(command[0]).name
    return subprocess.run([str(own if own.is_file() else command[0]), *command[1:]], check=False).returncode


@checked
def launch_with_dask(client: object, ranks: Count, arguments: Sequence[str]) -> int:
    """Run a script on so many ranks, spread over the machines of a `dask.distributed.Client`; the exit code.

    ArgumentError for what is no client, UsageError for a cluster without workers, RanksError where a worker cannot run
    its part.
    """
    check_program(arguments)
    if not (hasattr(client, "scheduler_info") and hasattr(client, "submit")):
        need, fix = "a client of a cluster", "dask.distributed.Client(address)"
        raise ArgumentError("launch_with_dask", got=f"client={shown(client)}", need=need, fix=fix)
    # `Any`: a client of a library that need not be installed.
    dask: Any = client
    # One worker of each machine: addresses are tcp://host:port.
    machines = {address.rpartition(":")[0]: address for address in sorted(dask.scheduler_info(n_workers=-1)["workers"])}
    addresses = list(machines.values())

    def submit(machine: int, command: Sequence[str]) -> ClusterTask:
        task: ClusterTask = dask.submit(
            run_here, list(command), workers=[addresses[machine]], allow_other_workers=False, pure=False
        )
        return task

    return launch_by(submit, len(addresses), ranks, arguments)


@checked
def launch_with_ray(ranks: Count, arguments: Sequence[str]) -> int:
    """Run a script on so many ranks, spread over the machines of the Ray cluster that this process has joined.

    BackendError without Ray, UsageError before `ray.init()`, RanksError where a machine cannot run its part.
    """
    check_program(arguments)
    try:
        ray: Any = import_module("ray")
        strategies: Any = import_module("ray.util.scheduling_strategies")
    except ImportError as error:
        fix = "pip install ray"
        raise BackendError("launch_with_ray", got=f"no Ray ({error})", need="the package", fix=fix) from None
    if not ray.is_initialized():
        raise UsageError("launch_with_ray", got="no cluster", need="one that we are part of", fix="ray.init()")
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    remote = ray.remote(run_here)

    def submit(machine: int, command: Sequence[str]) -> ClusterTask:
        there = strategies.NodeAffinitySchedulingStrategy(nodes[machine], soft=False)
        # It waits for its ranks, which take the processors.
        task: ClusterTask = remote.options(num_cpus=0, scheduling_strategy=there).remote(list(command)).future()
        return task

    return launch_by(submit, len(nodes), ranks, arguments)


def launch_by(submit: Submit, machines: int, ranks: int, arguments: Sequence[str]) -> int:
    """The same by whoever runs a command on a machine of a number."""
    if machines < 1:
        raise UsageError("launch", got="a cluster without workers", need="one or more")
    machines = min(machines, ranks)
    shares = [ranks * (machine + 1) // machines - ranks * machine // machines for machine in range(machines)]
    names = ",".join(f"machine-{machine}:{share}" for machine, share in enumerate(shares))
    mpiexec, *rest = command_of(ranks, arguments)
    with subprocess.Popen([mpiexec, "-launcher", "manual", "-hosts", names, *rest], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            tasks = [submit(*told) for told in _told(process.stdout)]
            reader = threading.Thread(target=_hand_on, args=(process.stdout,), daemon=True)
            reader.start()
            _watch(process, tasks)
            reader.join()
        except KeyboardInterrupt:
            # mpiexec has had it too, and ends its ranks.
            process.wait()
            return 130
        finally:
            if process.poll() is None:
                # Without its ranks it would wait for them.
                process.kill()
    return 128 - process.returncode if process.returncode < 0 else process.returncode


def _told(output: IO[bytes]) -> list[tuple[int, list[str]]]:
    """What mpiexec asks for: (number of the machine, command)."""
    commands = []
    for line in output:
        if line.startswith(ALL_TOLD):
            break
        if line.startswith(PROXY):
            words = shlex.split(line[len(PROXY) :].decode())
            commands.append((int(words[words.index("--proxy-id") + 1]), words))
        else:
            _print(line)
    return commands


def _hand_on(output: IO[bytes]) -> None:
    for line in output:
        _print(line)


def _print(line: bytes) -> None:
    sys.stdout.write(line.decode(errors="replace"))
    sys.stdout.flush()


def _watch(process: subprocess.Popen[bytes], tasks: Sequence[ClusterTask]) -> None:
    """Until all is done; RanksError where a task ends before, with what it says: mpiexec would wait for ever."""
    while process.poll() is None:
        for machine, task in enumerate(tasks):
            if not task.done():
                continue
            try:
                code = task.result()
            except Exception as error:
                raise _lost(machine, f"{type(error).__name__}: {error}") from error
            if code and process.poll() is None:
                _wait_a_little(process)
                if process.poll() is None:
                    raise _lost(machine, f"exit code {code}")
        time.sleep(POLLING_SECONDS)


def _wait_a_little(process: subprocess.Popen[bytes]) -> None:
    """mpiexec tells of its ranks' failures by itself, a moment later."""
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        return


def _lost(machine: int, told: str) -> RanksError:
    need, fix = "ranks that start there", "this environment and the script at the same place on every machine"
    return RanksError(f"launch, machine {machine}", got=told, need=need, fix=fix)
