"""What a type checker in strict mode knows of the names that users write; test_typed.py asks pyright.

A line that is marked is an error: were it none, the mark would be one.
"""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from typing import assert_type

import nnc
from nnc import nn

x = nnc.ones((4, 3))
assert_type(x.sum(axis=1, keepdims=True), nnc.Array)
assert_type(x.unsqueeze(dim=0).expand(2, -1, -1), nnc.Array)
assert_type(x.masked_fill(x > 0, 0.0).softmax(dim=-1).float(), nnc.Array)
assert_type(x.chunk(2), tuple[nnc.Array, ...])
values, places = x.topk(1)
assert_type(values, nnc.Array)
assert_type(x.max(dim=1).indices, nnc.Array)
assert_type(nnc.where(x > 0, nnc.exp(x), 0.0), nnc.Array)
assert_type(nnc.where(x > 0), tuple[nnc.Array, ...])
assert_type(nnc.tensor([1.0]).detach(), nnc.Variable)
# Words of several projects, as doors take them: docs/site/signatures.py.
assert_type(x.sum(dim=1, keepdim=True), nnc.Array)
assert_type(x.sum(1, keepdim=True).argmax(dim=0), nnc.Array)
assert_type(x.std(dim=1, unbiased=False).amax(axis=0, keepdims=True), nnc.Array)
assert_type(x.softmax(axis=-1).expand_dims(dim=0), nnc.Array)
assert_type(nnc.softmax(x, dim=-1), nnc.Array)
assert_type(nnc.cat([x, x], dim=1), nnc.Array)
assert_type(nnc.std(x, ddof=1), nnc.Array)
assert_type(nnc.add(x, x, out=nnc.zeros((4, 3)), where=x > 0), nnc.Array)
assert_type(nnc.sum(x, 0, where=x > 0, initial=1.0), nnc.Array)
assert_type(nnc.mean(x, axis=1, where=x > 0), nnc.Array)
assert_type(nnc.max(x, dim=1).values, nnc.Array)
assert_type(nnc.linalg.norm(x, dim=1, keepdim=True), nnc.Array)
x.sum(dims=1)  # pyright: ignore[reportCallIssue]
x.sum(out=x)  # pyright: ignore[reportCallIssue]
nnc.exp(x, initial=1.0)  # pyright: ignore[reportCallIssue]
x.unsqeeze(0)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
x.unsqueeze()  # pyright: ignore[reportCallIssue]
nnc.expp(x)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
nn.Dense("3")  # pyright: ignore[reportArgumentType]


@nnc.compile
def scaled(x: nnc.Array, factor: float) -> nnc.Array:
    """A function whose signature stays, compiled."""
    return x * factor


assert_type(scaled(x, factor=2.0), nnc.Array)
scaled(x, "2")  # pyright: ignore[reportArgumentType]

model = nn.Model(nn.Dense(3), (4,), optimizer=nn.Adam())
model.zip_map(lambda old, new: 0.9 * old + 0.1 * new, model)
