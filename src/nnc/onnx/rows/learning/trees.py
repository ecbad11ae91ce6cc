"""Ensembles of decision trees as tensor work: all trees of all rows go one level down at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

import numpy as np

import onnx
from nnc import ops
from nnc.classes import dataclass
from nnc.core.values.dtype import F32, F64, I64
from nnc.errors import FormatError
from nnc.onnx.node import Array, NodeCall, OnnxRow, Operand, Results
from nnc.onnx.rows.learning.learning import classified, labels_of, transformed

MOST_DEPTH = 1024
# Modes by the numbers that TreeEnsemble of version 5 gives them; a leaf has none there.
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF")
COMPARES = (ops.less_equal, ops.less, ops.greater_equal, ops.greater, ops.equal, ops.not_equal)
MEMBER, LEAF = 6, 7


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """Nodes of all trees, numbered. A leaf leads to itself, so `depth` steps from `roots` end in leaves.

    Entry k of the weights adds weights[k] to targets[k] where the leaf leaves[k] is reached.
    """

    roots: Array
    feature: Array
    value: Array
    mode: Array
    true: Array
    false: Array
    missing: Array
    leaves: Array
    targets: Array
    weights: Array
    tree: Array
    members: Mapping[int, Array] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """Steps to the deepest leaf; FormatError for trees that do not end."""
        level, steps = np.unique(self.roots), 0
        while True:
            inner = level[self.mode[level] != LEAF]
            if not len(inner):
                return steps
            level, steps = np.unique(np.concatenate([self.true[inner], self.false[inner]])), steps + 1
            if steps > MOST_DEPTH:
                raise FormatError("trees", got=f"more than {MOST_DEPTH} levels, or a circle", need="trees")


def _array(call: NodeCall, *names: str) -> Array:
    """The attribute of one of these names, as an array."""
    for name in names:
        value = call.node.attributes.get(name)
        if isinstance(value, onnx.TensorProto):
            return np.asarray(onnx.numpy_helper.to_array(value))
        if value is not None:
            return np.asarray(value)
    return np.empty(0)


def _numbered(trees: Array, nodes: Array) -> Callable[[Array, Array], Array]:
    """Numbers of nodes by their tree and their number in it."""
    span = int(max(nodes.max(initial=0), 0)) + 1
    keys = trees.astype(np.int64) * span + nodes
    order = np.argsort(keys, kind="stable")
    known = keys[order]

    def number(tree: Array, node: Array) -> Array:
        wanted = tree.astype(np.int64) * span + node
        place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        if len(wanted) and not (known[place] == wanted).all():
            raise FormatError("trees", got="a node that is not there", need="nodes of the tree")
        return order[place]

    return number


def _of_lists(call: NodeCall, kind: str) -> Trees:
    """The trees of TreeEnsembleClassifier and TreeEnsembleRegressor."""
    tree, node = _array(call, "nodes_treeids"), _array(call, "nodes_nodeids")
    names = _array(call, "nodes_modes").astype("S16")
    mode = np.full(len(names), len(MODES))
    for place, name in enumerate(MODES):
        mode[names == name.encode()] = place
    if not len(tree) or len({len(tree), len(node), len(mode)}) > 1:
        raise FormatError(call.node.label, got="lists of different lengths", need="one entry for each node")
    number, own = _numbered(tree, node), np.arange(len(tree))
    inner = mode != LEAF
    ways = list[Array]()
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        way = own.copy()
        way[inner] = number(tree[inner], _array(call, name)[inner])
        ways.append(way)
    roots = np.setdiff1d(own, np.concatenate([operand[inner] for operand in ways]))
    missing = _array(call, "nodes_missing_value_tracks_true")
    return Trees(
        roots,
        np.where(inner, _array(call, "nodes_featureids"), 0).astype(np.int64),
        _array(call, "nodes_values_as_tensor", "nodes_values"),
        mode,
        ways[0],
        ways[1],
        missing.astype(bool) if len(missing) else np.zeros(len(tree), bool),
        number(_array(call, f"{kind}_treeids"), _array(call, f"{kind}_nodeids")),
        _array(call, f"{kind}_ids").astype(np.int64),
        _array(call, f"{kind}_weights_as_tensor", f"{kind}_weights"),
        tree,
    )


def _of_tensors(call: NodeCall) -> Trees:
    """The trees of TreeEnsemble (version 5), whose leaves have numbers of their own behind the inner nodes."""
    feature, value = _array(call, "nodes_featureids").astype(np.int64), _array(call, "nodes_splits")
    inner, leaves = len(feature), len(_array(call, "leaf_targetids"))
    own, ways = np.arange(inner, inner + leaves), list[Array]()
    for side in ("true", "false"):
        nodes, ends = _array(call, f"nodes_{side}nodeids"), _array(call, f"nodes_{side}leafs").astype(bool)
        ways.append(np.concatenate([np.where(ends, nodes + inner, nodes), own]).astype(np.int64))
    modes = _array(call, "nodes_modes").astype(np.int64)
    missing = _array(call, "nodes_missing_value_tracks_true")
    zeros = np.zeros(leaves)
    if max(operand.max(initial=0) for operand in ways) >= inner + leaves:
        raise FormatError(call.node.label, got="a node that is not there", need="nodes and leaves of the lists")
    return Trees(
        _array(call, "tree_roots").astype(np.int64),
        np.concatenate([feature, zeros.astype(np.int64)]),
        np.concatenate([value, zeros.astype(value.dtype)]),
        np.concatenate([modes, np.full(leaves, LEAF)]),
        ways[0],
        ways[1],
        np.concatenate([missing.astype(bool) if len(missing) else np.zeros(inner, bool), zeros.astype(bool)]),
        own,
        _array(call, "leaf_targetids").astype(np.int64),
        _array(call, "leaf_weights"),
        np.zeros(inner + leaves, np.int64),
        _members(call, modes),
    )


def _members(call: NodeCall, modes: Array) -> dict[int, Array]:
    """The set of each node that asks for membership; sets follow each other, NaN between them."""
    values = _array(call, "membership_values")
    if not len(values):
        return {}
    sets = np.split(values, np.flatnonzero(np.isnan(values)))
    listed = iter(operand[~np.isnan(operand)] for operand in sets)
    return {place: next(listed) for place in np.flatnonzero(modes == MEMBER).tolist()}


def reached(call: NodeCall, x: Operand, trees: Trees) -> Operand:
    """The leaf of each tree for each row: [rows, trees]."""
    rows, count = x.shape[0], len(trees.roots)
    kind = F64 if x.spec.dtype is F64 else F32
    x = x if x.spec.dtype is kind else ops.cast(x, kind)
    tables = {
        name: call.constant(np.ascontiguousarray(operand))
        for name, operand in (("feature", trees.feature), ("true", trees.true), ("false", trees.false))
    }
    at = ops.broadcast_to(call.constant(trees.roots.astype(np.int64).reshape(1, count)), (rows, count))
    for _ in range(trees.depth):
        seen = ops.gather(x, ops.index_select(tables["feature"], at, 0), 1)
        way = _takes_true_branch(call, trees, seen, at)
        at = ops.where(way, ops.index_select(tables["true"], at, 0), ops.index_select(tables["false"], at, 0))
    return at


def _takes_true_branch(call: NodeCall, trees: Trees, seen: Operand, at: Operand) -> Operand:
    """Whether the comparison of the node holds."""
    value = ops.index_select(call.constant(trees.value, seen.spec), at, 0)
    modes = [mode for mode in range(len(MODES) + 1) if mode != LEAF and (trees.mode == mode).any()]
    if len(MODES) in modes:
        raise call.refuse("a mode that is none")
    way: Operand | None = None
    for mode in modes:
        holds = _is_member(call, trees, seen, at) if mode == MEMBER else COMPARES[mode](seen, value)
        if len(modes) > 1:
            holds = ops.logical_and(holds, ops.index_select(call.constant(trees.mode == mode), at, 0))
        way = holds if way is None else ops.logical_or(way, holds)
    assert way is not None
    if trees.missing.any():
        tracks = ops.index_select(call.constant(trees.missing), at, 0)
        way = ops.logical_or(way, ops.logical_and(ops.is_nan(seen), tracks))
    return way


def _is_member(call: NodeCall, trees: Trees, seen: Operand, at: Operand) -> Operand:
    """Whether an element is in the set of its node."""
    sets = trees.members
    widest = max(map(len, sets.values()), default=0)
    table = np.full((len(trees.feature), widest), np.nan)
    for place, operand in sets.items():
        table[place, : len(operand)] = operand
    flat = ops.reshape(at, (at.spec.elements,))
    chosen = ops.reshape(ops.index_select(call.constant(table, seen.spec), flat, 0), (*at.shape, widest))
    equal = ops.equal(ops.reshape(seen, (*seen.shape, 1)), chosen)
    return ops.reduce_sum(ops.cast(equal, I64), (2,)) > 0


def scores(call: NodeCall, trees: Trees, targets: int, how: str) -> Operand:
    """What the leaves say of each target: their sum, mean, least or greatest."""
    at = reached(call, call[0], trees)
    like = F64 if call[0].spec.dtype is F64 else F32
    rows, count = at.shape
    empty = {"MIN": np.inf, "MAX": -np.inf}.get(how, 0.0)
    single = len(np.unique(trees.leaves)) == len(trees.leaves)
    each = np.full(trees.tree.max() + 1, -1)
    each[trees.tree[trees.leaves]] = trees.targets
    if (
        single
        and how in ("SUM", "AVERAGE")
        and (each[trees.tree[trees.leaves]] == trees.targets).all()
        and len(each) > 1
    ):
        table = np.zeros(len(trees.feature))
        table[trees.leaves] = trees.weights
        onto = np.zeros((count, targets))
        known = each[trees.tree[trees.roots]]
        onto[np.arange(count)[known >= 0], known[known >= 0]] = 1.0
        kind = like.numpy
        given = ops.index_select(call.constant(table.astype(kind)), at, 0)
        total = ops.gemm(given, call.constant(onto.astype(kind)))
    else:
        table = np.full((len(trees.feature), targets), empty)
        if how in ("SUM", "AVERAGE"):
            np.add.at(table, (trees.leaves, trees.targets), trees.weights)
        else:
            table[trees.leaves, trees.targets] = trees.weights
        flat = ops.index_select(call.constant(table.astype(like.numpy)), ops.reshape(at, (rows * count,)), 0)
        each_tree = ops.reshape(flat, (rows, count, targets))
        reduce = {"MIN": ops.reduce_min, "MAX": ops.reduce_max}.get(how, ops.reduce_sum)
        total = reduce(each_tree, (1,))
        if how in ("MIN", "MAX"):
            total = ops.where(ops.equal(abs(total), ops.fill_like(total, np.inf)), ops.fill_like(total, 0.0), total)
    return total * (1.0 / count) if how == "AVERAGE" else total


def _regressor(call: NodeCall) -> Results:
    how, targets = call.text("aggregate_function", "SUM"), call.integer("n_targets", 1)
    y = scores(call, _of_lists(call, "target"), targets, how)
    base = _array(call, "base_values_as_tensor", "base_values")
    y = y + call.constant(base, y.spec) if len(base) else y
    y = transformed(call, y, call.text("post_transform", "NONE"))
    return y if y.spec.dtype is F32 else ops.cast(y, F32)


def _ensemble(call: NodeCall) -> Results:
    how = ("AVERAGE", "SUM", "MIN", "MAX")[call.integer("aggregate_function", 1)]
    y = scores(call, _of_tensors(call), call.integer("n_targets", 1), how)
    names = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    return transformed(call, y, names[call.integer("post_transform", 0)])


def _classifier(call: NodeCall) -> Results:
    trees = _of_lists(call, "class")
    classes = len(labels_of(call.node))
    y = scores(call, trees, max(classes, int(trees.targets.max(initial=0)) + 1), "SUM")
    base = _array(call, "base_values_as_tensor", "base_values")
    written = np.unique(trees.targets)
    if classes == 2 and len(written) == 1:
        single = ops.slice_axis(y, 1, int(written[0]), int(written[0]) + 1)
        if len(base):
            single = single + float(base.reshape(-1)[-1])
        return classified(call, single, positive=bool((trees.weights >= 0).all()))
    return classified(call, y + call.constant(base, y.spec) if len(base) else y)


DOMAIN = "ai.onnx.ml"
ROWS = {
    f"{DOMAIN}.TreeEnsemble": OnnxRow(_ensemble),
    f"{DOMAIN}.TreeEnsembleRegressor": OnnxRow(_regressor),
    f"{DOMAIN}.TreeEnsembleClassifier": OnnxRow(_classifier),
}
