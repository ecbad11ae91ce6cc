"""A tokenizer of the package `tokenizers` from the vocabulary of a GGUF file.

gpt2     pairs of bytes merged in the order of the file, after cuts by regular expressions
llama    pairs of pieces merged by the score of what they become, spaces as ▁, unknown characters as bytes
t5       the pieces of the highest sum of scores (unigram)
bert     the longest pieces from the first character of a word on (WordPiece)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import add
from types import MappingProxyType

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from nnc.errors import FormatError
from nnc.language.gguf import GgufFile
from nnc.language.text.pre_tokenizers import CUTS

SPACE = "▁"
CONTROL, USER_DEFINED, BYTE = 3, 4, 6
# Longer pieces are no words: their splits would take the square of their length.
LONGEST_PIECE = 256
_KEY = "tokenizer.ggml."
# A whole tokenizer.json, which says more than a vocabulary.
WHOLE_KEY = "tokenizer.huggingface.json"
# What stands before a text of an encoder, and behind it: by keys of the file, the first that is there, or by name.
FRAME = (
    ("cls_token_id", "[CLS]", "bos_token_id"),
    ("separator_token_id", "seperator_token_id", "[SEP]", "eos_token_id"),
)
# Words of more characters are unknown.
LONGEST_WORD = 100


def tokenizer_of(file: GgufFile) -> Tokenizer:
    """The tokenizer; FormatError for a file without a vocabulary, and for one of another kind."""
    place, kind = str(file.path), file.value(f"{_KEY}model")
    if file.value(WHOLE_KEY) is not None:
        return _whole(place, file.text(WHOLE_KEY))
    if kind is None:
        raise FormatError(
            place, got="no tokenizer", need="a vocabulary in the file", fix="convert it with its tokenizer"
        )
    make = KINDS.get(kind) if isinstance(kind, str) else None
    if make is None:
        raise FormatError(place, got=f"a tokenizer of kind {kind!r}", need=f"one of {', '.join(KINDS)}")
    tokens = file.texts(f"{_KEY}tokens")
    if not tokens or len(set(tokens)) < len(tokens):
        got = "no tokens" if not tokens else "a token twice"
        raise FormatError(place, got=got, need="a vocabulary of different tokens")
    made = make(file, tokens)
    kinds = _kinds(file, len(tokens))
    special, words = (
        [text for token in np.flatnonzero(kinds == kind).tolist() if (text := made.id_to_token(token))]
        for kind in (CONTROL, USER_DEFINED)
    )
    made.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
    made.add_tokens([AddedToken(text, normalized=False) for text in words])
    return made


def _whole(place: str, text: str) -> Tokenizer:
    """The tokenizer of a tokenizer.json."""
    try:
        made = Tokenizer.from_str(text)
    except Exception as error:  # the package raises plain exceptions, whatever is wrong
        raise FormatError(place, got=f"no tokenizer ({error})"[:200], need="a tokenizer.json") from None
    made.no_truncation()
    made.no_padding()
    return made


def frame_text(made: Tokenizer, file: GgufFile) -> None:
    """Put the tokens that an encoder reads before and behind a text where the file does not say it as a whole."""
    if file.value(WHOLE_KEY) is not None:
        return
    ends = [_named(made, file, keys) for keys in FRAME]
    special = [(token, made.token_to_id(token)) for token in ends if token is not None]
    first, last = (f"{token} " if token is not None else "" for token in ends)
    made.post_processor = processors.TemplateProcessing(single=f"{first}$A {last}".strip(), special_tokens=special)


def _named(made: Tokenizer, file: GgufFile, keys: tuple[str, ...]) -> str | None:
    """The first of these tokens that the file has."""
    for key in keys:
        number = file.integer(f"{_KEY}{key}", 1 << 32) if key.endswith("_id") else made.token_to_id(key)
        token = None if number is None or number >= made.get_vocab_size() else made.id_to_token(number)
        if token:
            return str(token)
    return None


def starts_text(file: GgufFile) -> bool:
    """Whether a text begins with the start token."""
    kind, cuts = file.value(f"{_KEY}model"), CUTS.get(str(file.value(f"{_KEY}pre") or ""))
    usual = kind == "llama" or (kind == "gpt2" and cuts is not None and cuts.start)
    return file.flag(f"{_KEY}add_bos_token", usual)


def _kinds(file: GgufFile, count: int) -> np.ndarray:
    kinds = file.numbers(f"{_KEY}token_type")
    if len(kinds) not in (0, count):
        raise FormatError(str(file.path), got=f"kinds of {len(kinds)} tokens", need=f"one for each of {count}")
    return np.asarray(kinds if len(kinds) else np.ones(count), np.int64)


def _scores(file: GgufFile, count: int) -> np.ndarray:
    scores = file.numbers(f"{_KEY}scores")
    if len(scores) != count or not np.isfinite(np.asarray(scores, np.float64)).all():
        raise FormatError(str(file.path), got=f"{len(scores)} scores", need=f"a finite one for each of {count} tokens")
    return np.asarray(scores, np.float64)


def _bytes_merged(file: GgufFile, tokens: tuple[str, ...]) -> Tokenizer:
    name = file.text(f"{_KEY}pre", "")
    if name not in CUTS:
        need = f"one of {', '.join(filter(None, CUTS))}"
        raise FormatError(str(file.path), got=f"a vocabulary cut as {name!r}", need=need, fix="use its tokenizer.json")
    vocabulary = {token: number for number, token in enumerate(tokens)}
    texts = file.texts(f"{_KEY}merges")
    parts = [merge.partition(" ") for merge in texts]
    lefts, rights = [part[0] for part in parts], [part[2] for part in parts]
    # The package ends the thread (a panic) where a merge is of no token. Sets, as there may be 49,000.
    known = vocabulary.keys()
    if not (known >= {*lefts} and known >= {*rights} and known >= {*map(add, lefts, rights)}):
        needed = zip(texts, lefts, rights, strict=True)
        merge = next(merge for merge, left, right in needed if not known >= {left, right, left + right})
        raise FormatError(str(file.path), got=f"a merge {merge!r}", need="two tokens that are a third")
    merges = [*zip(lefts, rights, strict=True)]
    made = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=CUTS[name].whole))
    splits = [pre_tokenizers.Split(Regex(each), "isolated") for each in CUTS[name].expressions]
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    made.decoder = decoders.ByteLevel()
    return made


def _pieces_merged(file: GgufFile, tokens: tuple[str, ...]) -> Tokenizer:
    scores = _scores(file, len(tokens))
    vocabulary = {token: number for number, token in enumerate(tokens)}
    ranked = []
    for number, token in enumerate(tokens):
        if not 2 <= len(token) <= LONGEST_PIECE:
            continue
        for cut in range(1, len(token)):
            left, right = vocabulary.get(token[:cut]), vocabulary.get(token[cut:])
            if left is not None and right is not None:
                ranked.append((-scores[number], number, left, right))
    merges = [(tokens[left], tokens[right]) for _, _, left, right in sorted(ranked)]
    unknown = tokens[min(file.integer(f"{_KEY}unknown_token_id", 0), len(tokens) - 1)]
    made = Tokenizer(models.BPE(vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    prefixed = file.flag(f"{_KEY}add_space_prefix", True)
    _spaced(made, prefixed)
    return made


def _unigram(file: GgufFile, tokens: tuple[str, ...]) -> Tokenizer:
    scores = _scores(file, len(tokens))
    unknown = min(file.integer(f"{_KEY}unknown_token_id", 0), len(tokens) - 1)
    pairs = list(zip(tokens, scores.tolist(), strict=True))
    made = Tokenizer(models.Unigram(pairs, unknown, byte_fallback=bool((_kinds(file, len(tokens)) == BYTE).any())))
    _spaced(made, file.flag(f"{_KEY}add_space_prefix", True))
    return made


def _words_in_pieces(file: GgufFile, tokens: tuple[str, ...]) -> Tokenizer:
    """Pieces that begin a word have ▁ before them in files, where others have ## elsewhere."""
    pieces = [_piece(token) for token in tokens]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    unknown = min(file.integer(f"{_KEY}unknown_token_id", vocabulary.get("[UNK]", 0)), len(tokens) - 1)
    if len(vocabulary) < len(tokens):
        raise FormatError(str(file.path), got="a piece twice", need="a vocabulary of different pieces")
    made = Tokenizer(models.WordPiece(vocabulary, unk_token=pieces[unknown], max_input_chars_per_word=LONGEST_WORD))
    # Files do not say whether capitals are kept: words with capitals are there for nobody else.
    kept = any(piece != piece.lower() for token, piece in zip(tokens, pieces, strict=True) if token.startswith(SPACE))
    made.normalizer = normalizers.BertNormalizer(lowercase=not kept)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    return made


def _piece(token: str) -> str:
    if token.startswith("[") and token.endswith("]"):
        return token
    return token[1:] if token.startswith(SPACE) and token != SPACE else f"##{token}"


def _spaced(made: Tokenizer, prefixed: bool) -> None:
    """Spaces are ▁, one of them before the text where `prefixed`."""
    replace = normalizers.Replace(" ", SPACE)
    made.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), replace]) if prefixed else replace
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    made.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if prefixed else steps)


KINDS: Mapping[str, Callable[[GgufFile, tuple[str, ...]], Tokenizer]] = MappingProxyType(
    {"gpt2": _bytes_merged, "llama": _pieces_merged, "t5": _unigram, "bert": _words_in_pieces}
)
