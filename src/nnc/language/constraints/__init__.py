"""Answers that follow a grammar: which tokens may come next, so that each whole answer is of the language.

grammar_rules.py   rules over bytes, and what they are built of
gbnf.py            the grammars of llama.cpp
expressions.py     regular expressions
json_schemas.py    JSON, and JSON that a schema describes
byte_states.py     what may follow some bytes: states by stacks of rules, made when they are reached
token_masks.py     the tokens of a vocabulary that a state allows
answer_forms.py    what callers give, and masks that are kept
"""
