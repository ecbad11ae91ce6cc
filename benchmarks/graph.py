"""Time and memory of the typed graph with many nodes; one JSON line per case.

    python benchmarks/graph.py [--nodes N] [--storage list|dict]

Node i follows nodes i - 1 and i - 8. `append` adds single nodes with an edge to the last one to the finished graph:
`growth` is the mean time of an append at full size over that at a hundredth of it, near 1 where nothing is
renumbered.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from typing import NewType

from nnc.graph import DictStorage, Graph, ListStorage, StorageFactory

Key = NewType("Key", int)
STORAGES: dict[str, StorageFactory] = {"list": ListStorage, "dict": DictStorage}
APPENDS = 10_000
FAR = 8


def build(nodes: int, storage: StorageFactory) -> Graph[int, None, Key]:
    graph: Graph[int, None, Key] = Graph(Key, storage=storage)
    keys = [graph.add_node(index) for index in range(nodes)]
    for index in range(1, nodes):
        graph.add_edge(keys[index - 1], keys[index], None)
        if index >= FAR:
            graph.add_edge(keys[index - FAR], keys[index], None)
    return graph


def append(graph: Graph[int, None, Key]) -> None:
    last = graph.add_node(0)
    for index in range(APPENDS):
        node = graph.add_node(index)
        graph.add_edge(last, node, None)
        last = node


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def report(case: str, elapsed: float, **more: float) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"case": case, "seconds": round(elapsed, 4), **more, "peak_mib": peak}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10**6)
    parser.add_argument("--storage", choices=STORAGES, default="list")
    options = parser.parse_args()
    storage = STORAGES[options.storage]
    small = build(max(options.nodes // 100, FAR), storage)
    start = time.perf_counter()
    graph = build(options.nodes, storage)
    report("build", time.perf_counter() - start, nodes=options.nodes)
    cases: dict[str, Callable[[], object]] = {
        "toposort": graph.toposort,
        "dump": graph.dump,
        "structural_hash": graph.structural_hash,
    }
    for case, run in cases.items():
        report(case, seconds(run))
    before = min(seconds(lambda: append(small)) for _ in range(3))
    after = min(seconds(lambda: append(graph)) for _ in range(3))
    per_append = round(after / APPENDS * 1e6, 3)
    report("append", after, microseconds_per_append=per_append, growth=round(after / before, 2))


if __name__ == "__main__":
    main()
