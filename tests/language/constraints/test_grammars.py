"""Grammars and expressions: texts that are written match, texts that do not match cannot be written, and bad ones."""

from __future__ import annotations

import re

import pytest
from tests.language.constraints.grammar_texts import accepts, drawn, masks_of

from nnc.errors import DataError, FormatError
from nnc.language.constraints.answer_forms import grammar_of
from nnc.language.constraints.expressions import grammar_of_expression
from nnc.language.constraints.gbnf import grammar_of_gbnf

PATTERNS = {
    r"a+b?c{2,3}(x|yz)*[^a-c]\d": ("abccx1", "cca5"),
    r"\w+@\w+\.(com|org)": ("a_1@b.com", "@b.com"),
    r"[äöü€😀-😂]+": ("ä€😁", "a"),
    r"(?:\d{3}-)?\d{4}": ("123-4567", "123-456"),
    r"[\u0041-Z\]\-]{2,}?": ("A]-", "A"),
    r"^\S.*\s$": ("a b ", " a "),
    r"": ("", "a"),
    r"(?P<year>\d\d)|x?": ("99", "9"),
    r"[^\n]{1,4}": ("€😀a\x00", "\n"),
    r"\x41\.\\\$": ("A.\\$", "A.$"),
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_texts_of_an_expression_match_it(pattern: str) -> None:
    good, bad = PATTERNS[pattern]
    masks = masks_of(grammar_of_expression(pattern))
    assert accepts(masks, good)
    assert not accepts(masks, bad)
    for seed in range(15):
        assert re.fullmatch(pattern, drawn(masks, seed))


ARITHMETIC = r"""
# Sums of products.
root  ::= sum "\n"?
sum   ::= product ( [-+] product )*   # groups repeat
product ::= factor ("*" factor){0,2}
factor ::= number
         | "(" sum ")"
number ::= [1-9] [0-9]{0,3} ("." [0-9]+)?
"""


def test_texts_of_a_grammar_are_its_language() -> None:
    masks = masks_of(grammar_of_gbnf(ARITHMETIC))
    for seed in range(40):
        eval(drawn(masks, seed), {})  # digits, signs and brackets alone
    assert accepts(masks, "(1+2)*3.25")
    for text in ("1+", "(1", "1*2*3*4", "01", "1 + 2", ""):
        assert not accepts(masks, text)


def test_escapes_and_classes_of_a_grammar() -> None:
    masks = masks_of(grammar_of_gbnf('root ::= "\\"\\x41\\u00e4\\U0001F600" [^\\]a-c] [\\n\\-x]? .'))
    assert accepts(masks, '"Aä😀d\n€')
    assert accepts(masks, '"Aä😀^-b')
    assert not accepts(masks, '"Aä😀a-b')
    assert not accepts(masks, '"Aä😀]-b')


WRONG = {
    'root ::= "a': "in line 1; need a rule",
    "a ::= b": "no rule b",
    'a ::= "x"': "no rule root",
    'root ::= "a"\nroot ::= "b"': "two rules root",
    'root ::= root "a" | "b"': "begins with itself",
    'root ::= a\na ::= b? c\nb ::= "x"\nc ::= root': "begins with itself",
    'root ::= ("a"?)*': "begins with itself",
    'root ::= ("a"': "'the end'; need a sign",
    'root ::= * "a"': "behind nothing",
    'root ::= "a"{3,2}': "repetitions in order",
    'root ::= "a"{99999}': "at most 4096",
    "root ::= [z-a]": "a class without characters",
    'root "a"': "need a defined",
    "root ::= " + "(" * 300 + '"a"' + ")" * 300: "200 deep",
}


@pytest.mark.parametrize("source", WRONG)
def test_a_text_that_is_no_grammar_is_an_error(source: str) -> None:
    with pytest.raises(FormatError, match=re.escape(WRONG[source])):
        grammar_of_gbnf(source)


WRONG_PATTERNS = {
    r"(a": "need a )",
    r"a)": "need the end",
    r"[a": "need a ]",
    r"a**": "one number of times",
    r"*a": "something to repeat",
    r"a$b": "anchors at the ends alone",
    r"(?=a)b": "a group that looks around nothing",
    r"(?<!a)b": "a group that looks around nothing",
    r"(a)\1": "an escape of a sign",
    r"\b": "an escape of a sign",
    r"a{x}": "{2}, {2,} or {2,5}",
    r"[b-a]": "first-last",
    r"(a*)*": "begins with itself",
    r"\u12": "4 digits",
}


@pytest.mark.parametrize("pattern", WRONG_PATTERNS)
def test_what_no_expression_of_ours_says_is_an_error(pattern: str) -> None:
    with pytest.raises(FormatError, match=re.escape(WRONG_PATTERNS[pattern])):
        grammar_of_expression(pattern)


def test_expressions_with_flags_are_refused() -> None:
    with pytest.raises(FormatError, match="an expression with flags"):
        grammar_of(re.compile("a", re.IGNORECASE))


def test_grammars_that_grow_without_bound_end_in_an_error() -> None:
    with pytest.raises(FormatError, match="rules"):
        grammar_of_expression("((a{0,4000}b{0,4000}){0,4000}c{0,4000}){0,4000}" * 30)
    # Two ways at each step: the stacks of a text double without end.
    masks = masks_of(grammar_of_gbnf('root ::= "a" root root | "a" root "b" root | "a"'))

    def read(state: int) -> None:
        for _ in range(60):
            state = masks.after(state, ord("a"))

    with pytest.raises(DataError, match="too many ways|states"):
        read(masks.start)
