"""Every exception that nnc raises on purpose, in one tree.

    NncError
    ├── UsageError                a call, a file or an option that the caller can mend
    │   ├── ShapeError            shapes that an operator's rule does not allow
    │   ├── DTypeError            element types that an operator's rule does not allow
    │   ├── LayoutError           memory layouts that an operator's rule does not allow
    │   ├── DeviceError           tensors on different or unknown devices
    │   ├── AttributeValueError   a value that an operator's attribute does not allow
    │   │   └── ArgumentError     an argument of another type than its annotation names, or outside of its range
    │   ├── IndexRangeError       an index outside the axis it names (also Python's IndexError)
    │   ├── UnknownNameError      a name that is not there, maybe another project's (also Python's AttributeError)
    │   ├── UnknownModuleError    a module of another project's (also Python's ModuleNotFoundError)
    │   ├── ArityError            wrong number of inputs or outputs
    │   ├── RegistryError         unknown, duplicate or contradictory registration
    │   ├── GraphError            an edit that would break a graph
    │   │   ├── KeyOverflowError  more nodes than the key width can count
    │   │   ├── UnknownKeyError   a key that this graph never made or has removed
    │   │   ├── CycleError        an order was asked of a cyclic graph
    │   │   ├── StaleError        a column or fact older than its graph
    │   │   └── SymbolError       a symbol misused: written twice, of another graph
    │   ├── NotDifferentiableError a gradient was asked through an operator that has none
    │   ├── PlanningError         a memory problem that is malformed or cannot be met
    │   │   └── MemoryLimitError  the smallest plan found is above the limit
    │   │       └── OutOfMemoryError  the system has no more memory (also Python's MemoryError)
    │   ├── BackendError          an unknown or absent backend, or nobody claims a command
    │   ├── StreamError           a stream or signal misused: emitted twice, waited for by its own task
    │   ├── DeadlockError         a call that would wait, by way of other threads, for itself
    │   ├── CancelledError        a run that was cancelled before its end
    │   ├── RanksError            processes of one launch that do not go on together
    │   │   ├── DisagreementError ranks that do not do, or have, the same
    │   │   └── RankTimeoutError  a rank that did not come in time
    │   ├── FormatError           a file that is not what it should be
    │   ├── DataError             an unknown data set or malformed data
    │   ├── InterruptedUpdateError tensors that an update has left half renewed
    │   └── NotFiniteError        a training whose loss or gradients are no finite numbers
    └── VerificationError         our own bug: a rule that must hold was found broken

Messages follow one form: `op: got …; need …. Fix: …. (file.py:12)`. Values are never printed.
"""

from __future__ import annotations


class NncError(Exception):
    """The root of all exceptions raised by nnc."""


class UsageError(NncError):
    """Something the caller can mend.

    The parts stay readable on the exception: `subject` (usually the operator), `got`, `need`, `fix`, and
    `origin`, the `file:line` of the user's call when it is known. `place` is the layer of a model where it happened,
    such as `0.Dense`, which whoever builds the layer puts in.
    """

    place: str = ""

    def __init__(self, subject: str, *, got: str = "", need: str = "", fix: str = "", origin: str = "") -> None:
        self.subject = subject
        self.got = got
        self.need = need
        self.fix = fix
        self.origin = origin
        super().__init__(subject)

    def __str__(self) -> str:
        parts = (f"got {self.got}" if self.got else "", f"need {self.need}" if self.need else "")
        clauses = [part for part in parts if part]
        text = str(self.subject) + (": " + "; ".join(clauses) if clauses else "")
        if self.fix:
            text += f". Fix: {self.fix}"
        if self.place or self.origin:
            text += f" ({', '.join(where for where in (self.place, self.origin) if where)})"
        return text


class ShapeError(UsageError):
    """Shapes that an operator's rule does not allow."""


class DTypeError(UsageError):
    """Element types that an operator's rule does not allow."""


class LayoutError(UsageError):
    """Memory layouts that an operator's rule does not allow."""


class DeviceError(UsageError):
    """Tensors on different or unknown devices."""


class AttributeValueError(UsageError):
    """A value that an operator's attribute does not allow."""


class ArgumentError(AttributeValueError):
    """An argument of another type than its annotation names, or outside of the range that it states."""


class IndexRangeError(UsageError, IndexError):
    """An index outside the axis that it names, more of them than there are axes, or a mask of another shape."""


class UnknownNameError(UsageError, AttributeError):
    """A name that is not there, with our form of it where another project has it, or with what is spelt like it."""


class UnknownModuleError(UsageError, ModuleNotFoundError):
    """A module that is not there under another project's name, with where we have what is in it."""


class ArityError(UsageError):
    """Wrong number of inputs or outputs."""


class RegistryError(UsageError):
    """Unknown, duplicate or contradictory registration."""


class GraphError(UsageError):
    """An edit that would break a graph."""


class KeyOverflowError(GraphError):
    """More nodes than the key width can count."""


class UnknownKeyError(GraphError):
    """A key that this graph never made or has removed."""


class CycleError(GraphError):
    """An order was asked of a cyclic graph."""


class StaleError(GraphError):
    """A column or fact that is older than its graph."""


class SymbolError(GraphError):
    """A symbol misused: written twice, read before written, or of another graph."""


class NotDifferentiableError(UsageError):
    """A gradient was asked through an operator that has none."""


class PlanningError(UsageError):
    """A memory problem that is malformed or cannot be met."""


class MemoryLimitError(PlanningError):
    """The smallest plan found is above the limit; `smallest` is the least arena that was found, if any.

    `unlimited` is that without a limit, where nothing runs again.
    """

    smallest: int = 0
    unlimited: int = 0


class OutOfMemoryError(MemoryLimitError, MemoryError):
    """The system has not as much memory as is needed; the same call may be made again."""


class BackendError(UsageError):
    """An unknown or absent backend, or a command that nobody claims."""


class StreamError(UsageError):
    """A stream or signal misused: emitted twice, waited for by its own task, taken into a forked child."""


class DeadlockError(UsageError):
    """A call that would wait, by way of other threads' calls, for itself; the others go on."""


class CancelledError(UsageError):
    """A run that was cancelled before its end; what it was to write is incomplete."""


class RanksError(UsageError):
    """Processes of one launch that do not go on together."""


class DisagreementError(RanksError):
    """Ranks that do not do, or have, the same."""


class RankTimeoutError(RanksError):
    """A rank that did not come in time."""


class FormatError(UsageError):
    """A file that is not what it should be."""


class DataError(UsageError):
    """An unknown data set or malformed data."""


class NotFiniteError(UsageError):
    """Numbers that are not finite: a training's loss or gradients, or what a command made under `nnc.debug`.

    Update `step`, of this `loss`, changed nothing.
    """

    step: int = 0
    loss: float = 0.0


class InterruptedUpdateError(UsageError):
    """A model's tensors may be partly those before an update and partly those behind it: update `step` broke off."""

    step: int = 0


class VerificationError(NncError):
    """Our own bug: a rule that must hold was found broken."""
