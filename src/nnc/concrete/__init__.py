"""L2: graphs of commands on real tensors, and how they run.

graph       edit, run, schedule, cancel          body       nodes, edges, bodies of loops
control     tests and choices                    counter    loop counts
multiview   places that move                     tape       what each iteration had
schedule    streams and signals                  prepare    programs, plans
run         loops, branches, lanes               autotune   the fastest claims, measured
choices     what was measured, kept on disk
text        dump, Graphviz                       pending    runs that have not ended
check       what a node may be given             report     who runs what, and why
"""

from nnc.concrete.autotune import TuneOptions, checked_tuning, is_faster, tune
from nnc.concrete.body import Exec, ExecDependency, ExecKey
from nnc.concrete.check import check_outputs
from nnc.concrete.choices import TuneCache
from nnc.concrete.control import CountBelow, NonZero, PythonChoice, PythonTest, Selector, TapedChoice
from nnc.concrete.graph import ConcreteGraph, GraphSchedule
from nnc.concrete.multiview import (
    Carry,
    Multiview,
    MultiviewKind,
    Phi,
    Place,
    Recalled,
    Reference,
    Taped,
    synchronize_to_multiview,
)
from nnc.concrete.pending import PendingRuns
from nnc.concrete.report import Served
from nnc.concrete.tape import Tape, TapeAccess, multiview_synchronize

__all__ = [
    "Carry",
    "ConcreteGraph",
    "CountBelow",
    "ExecDependency",
    "Exec",
    "ExecKey",
    "GraphSchedule",
    "MultiviewKind",
    "Multiview",
    "NonZero",
    "PendingRuns",
    "Phi",
    "Place",
    "PythonChoice",
    "PythonTest",
    "Recalled",
    "Reference",
    "Selector",
    "Served",
    "Tape",
    "TapeAccess",
    "Taped",
    "TapedChoice",
    "TuneCache",
    "TuneOptions",
    "check_outputs",
    "checked_tuning",
    "is_faster",
    "multiview_synchronize",
    "synchronize_to_multiview",
    "tune",
]
