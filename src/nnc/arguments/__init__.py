"""Arguments of public calls, checked against their annotations.

    @checked      a class, function or method: the arguments are checked before anything is done
    @explained    what is called often, of a class its public methods: looked at once it has failed, for the reason why
    check_made    in the `__new__` that a family of classes shares: the arguments of each class' constructor

A wrong one is an ArgumentError with got / need / fix, never Python's own TypeError from somewhere inside. An annotation
may state a range too, by name: `Count` (1, 2, …), `Size` (0, 1, …), both below 2^63,
`Seed` (0, 1, … without end), `Rate` (finite, ≥ 0), `Share` ([0, 1)), …

Annotations are read once, at the first call. What they leave open (`Any`, `object`, `ArrayLike`) is not looked at.
"""

from nnc.arguments.annotation_rules import Count, Finite, Positive, Probability, Range, Rate, Seed, Share, Size, rule_of
from nnc.arguments.checking import (
    BUILTIN,
    check_made,
    checked,
    checked_as,
    explain_functions,
    explained,
    explained_as,
    explanation,
    frequent,
    shown,
)

__all__ = [
    "BUILTIN",
    "Count",
    "Finite",
    "Positive",
    "Probability",
    "Range",
    "Rate",
    "Seed",
    "Share",
    "Size",
    "check_made",
    "checked",
    "checked_as",
    "explain_functions",
    "explained",
    "explained_as",
    "explanation",
    "frequent",
    "rule_of",
    "shown",
]
