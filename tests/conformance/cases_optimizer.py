"""Rows of the conformance table for optimizers beside sgd and adam."""

from __future__ import annotations

from collections.abc import Iterator

from tests.conformance.case import FLOATS, Argument, Case, constant, positive

from nnc.core.values.dtype import F32
from nnc.ops.optimizer.adafactor import ADAFACTOR, AdafactorAttrs
from nnc.ops.optimizer.optimizer import (
    ADADELTA,
    ADAGRAD,
    ADAM,
    ADAMAX,
    AMSGRAD,
    GRADIENT_DESCENT,
    LAMB,
    LION,
    MUON,
    NADAM,
    RMSPROP,
    RMSPROP_CENTERED,
    RMSPROP_PLAIN,
    SGD,
    AdadeltaAttrs,
    AdagradAttrs,
    AdamAttrs,
    AdamaxAttrs,
    GradientDescentAttrs,
    LambAttrs,
    LionAttrs,
    MuonAttrs,
    NadamAttrs,
    RMSPropAttrs,
    SGDAttrs,
)


def rows() -> Iterator[Case]:
    """Each with and without decay, on several shapes."""
    rate, step = Argument((), constant(0.1), F32), Argument((), constant(3.0), F32)
    for shape in ((3, 5), (0,), (), (33,)):
        w, v = Argument(shape), Argument(shape, positive)
        for number, decay in enumerate((0.0, 0.01)):
            note = f"{number}"
            yield Case(GRADIENT_DESCENT, GradientDescentAttrs(decay), (w, w, rate), FLOATS, note)
            yield Case(LAMB, LambAttrs(decay=decay), (w, w, w, v, rate, step), FLOATS, note)
            yield Case(RMSPROP, RMSPropAttrs(0.9, 0.5 * number, decay=decay), (w, w, w, v, rate), FLOATS, note)
            yield Case(ADAGRAD, AdagradAttrs(1e-3, decay), (w, w, v, rate), FLOATS, note)
            yield Case(ADADELTA, AdadeltaAttrs(0.9, 1e-3, decay), (w, w, v, v, rate), FLOATS, note)
            yield Case(ADAMAX, AdamaxAttrs(0.8, 0.95, 1e-3, decay), (w, w, w, v, rate, step), FLOATS, note)
            yield Case(LION, LionAttrs(decay=decay), (w, w, w, rate), FLOATS, note)
        for decoupled in (False, True):
            attrs = AdamAttrs(0.8, 0.95, 1e-6, 0.01, decoupled)
            note = "decoupled" * decoupled
            yield Case(AMSGRAD, attrs, (w, w, w, v, v, rate, step), FLOATS, note)
    for rows, columns in ((5, 3), (3, 5), (4, 4)):
        matrix = Argument((rows, columns))
        yield Case(MUON, MuonAttrs(nesterov=rows > columns), (matrix, matrix, matrix, rate), FLOATS, f"{rows} rows")
    for shape, row, column in (
        ((5, 3), (5,), (3,)),
        ((2, 3, 4), (2, 3), (2, 4)),
        ((7,), (7,), ()),
        ((0, 3), (0,), (3,)),
    ):
        w, kept = Argument(shape), (Argument(row, positive), Argument(column, positive))
        for attrs in (AdafactorAttrs(), AdafactorAttrs(0.5, 1e-3, 0.1, 0.5, 0.01, relative=False, scaled=False)):
            yield Case(ADAFACTOR, attrs, (w, w, *kept, rate, step), FLOATS, f"{shape} {attrs.relative}")
    still = Argument((4,), constant(0.0))
    yield Case(LAMB, LambAttrs(), (still, Argument((4,)), still, still, rate, step), FLOATS, "still")
    yield from _variants()


def _variants() -> Iterator[Case]:
    """Where epsilon and the rate stand otherwise, and the optimizers that keep less or more."""
    rate, step = Argument((), constant(0.1), F32), Argument((), constant(3.0), F32)
    w, v, wide = Argument((33,)), Argument((33,), positive), Argument((33,), constant(9.0))
    for number, decay in enumerate((0.0, 0.01)):
        note = f"{number}"
        places = RMSPropAttrs(0.9, 0.5, 1e-3, decay, rate_inside=bool(number), epsilon_inside=not number)
        centered = RMSPropAttrs(0.5, 0.5 * number, 0.1, decay, epsilon_inside=bool(number))
        yield Case(RMSPROP_PLAIN, places, (w, w, v, rate), FLOATS, note)
        yield Case(RMSPROP, places, (w, w, w, v, rate), FLOATS, f"places {note}")
        yield Case(RMSPROP_CENTERED, centered, (w, w, w, wide, w, rate), FLOATS, note)
        nadam = NadamAttrs(0.8, 0.95, 1e-3, decay, 1.0 - 0.9 * number)
        yield Case(NADAM, nadam, (w, w, w, v, rate, step), FLOATS, note)
        yield Case(ADAGRAD, AdagradAttrs(1e-3, decay, 0.1, bool(number)), (w, w, v, rate), FLOATS, f"initial {note}")
        outside = AdamaxAttrs(0.8, 0.95, 1e-3, decay, epsilon_outside=True)
        yield Case(ADAMAX, outside, (w, w, w, v, rate, step), FLOATS, f"outside {note}")
        hat = AdamAttrs(0.8, 0.95, 1e-3, decay, bool(number), epsilon_hat=True)
        yield Case(ADAM, hat, (w, w, w, v, rate, step), FLOATS, f"hat {note}")
        yield Case(AMSGRAD, hat, (w, w, w, v, v, rate, step), FLOATS, f"hat {note}")
        inside = SGDAttrs(0.9, 0.0, decay, nesterov=bool(number), rate_inside=True)
        yield Case(SGD, inside, (w, w, w, rate), FLOATS, f"inside {note}")
    w, v, wide = Argument((3, 5)), Argument((3, 5), positive), Argument((3, 5), constant(9.0))
    yield Case(RMSPROP_PLAIN, RMSPropAttrs(), (w, w, v, rate), FLOATS, "matrix")
    yield Case(RMSPROP_CENTERED, RMSPropAttrs(0.5), (w, w, w, wide, w, rate), FLOATS, "matrix")
    yield Case(NADAM, NadamAttrs(), (w, w, w, v, rate, step), FLOATS, "matrix")
