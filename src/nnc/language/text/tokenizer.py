"""Text to tokens and back, what ends a text, and messages of a chat as text: what a model's files say of all that."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tokenizers import Encoding
from tokenizers import Tokenizer as Encoder

from nnc.arguments import checked
from nnc.core.precautions.reading import read_file
from nnc.errors import DataError, FormatError, UsageError
from nnc.language.architectures import EncoderFiles, ModelFiles
from nnc.language.architectures.opening import read_json
from nnc.language.gguf import GgufFile
from nnc.language.text.chat_template import ChatTemplate, Message
from nnc.language.text.gguf_vocabulary import frame_text, starts_text, tokenizer_of
from nnc.language.text.pieces import TextPieces
from nnc.language.text.slow_rules import SlowRules
from nnc.language.text.text_growth import check_growth

MOST_TOKENIZER_BYTES = 1 << 26
MOST_TEXT_BYTES = 1 << 26
# Ends of an answer that files do not always name.
ENDS = (
    "<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "</s>", "<|end_of_text|>", "<|eom_id|>",
)  # fmt: skip
_GGUF_ENDS = ("eos_token_id", "eot_token_id", "eom_token_id")


class TextTokenizer:
    """`encode` and `decode`; `ends` are the tokens that end a text, `template` is that of chats, where there is one.

    `end` is the one that the file names first, where it names one.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        start: int | None,
        ends: frozenset[int],
        template: str,
        place: str,
        prefixed: bool,
        end: int | None = None,
    ) -> None:
        self.encoder, self.start, self.ends, self._place = encoder, start, ends, place
        self.end = min(ends, default=None) if end is None else end
        self._prefixed = prefixed and start is not None
        self._rules = SlowRules(encoder)
        names = {"bos_token": self._named(start), "eos_token": self._named(self.end)}
        self.template = ChatTemplate(template, names, f"{place}: chat template") if template else None

    def _named(self, token: int | None) -> str:
        return "" if token is None else (self.encoder.id_to_token(token) or "")

    def __len__(self) -> int:
        return int(self.encoder.get_vocab_size())

    def __repr__(self) -> str:
        return f"TextTokenizer({len(self):,} tokens)"

    @checked
    def encode(self, text: str, *, start: bool = True) -> list[int]:
        """The tokens of a text, those of control written in it among them; behind the start token, if there is one."""
        return [token for token, _, _ in self.places(text, start=start)]

    @checked
    def places(self, text: str, *, start: bool = True) -> list[tuple[int, int, int]]:
        """The tokens of `encode`, each with the places of the text between which its characters lie."""
        check_text(text)
        made = _encoded(self.encoder, self._rules, text, whole=False)
        tokens = [(int(token), *place) for token, place in zip(made.ids, made.offsets, strict=True)]
        if start and self._prefixed and self.start is not None and (not tokens or tokens[0][0] != self.start):
            return [(self.start, 0, 0), *tokens]
        return tokens

    @checked
    def encode_whole(self, text: str) -> list[int]:
        """The tokens of a text as an encoder reads it: with those that stand before and behind it."""
        check_text(text)
        return [int(token) for token in _encoded(self.encoder, self._rules, text, whole=True).ids]

    @checked
    def decode(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """The text of tokens, without those of control unless `special`."""
        for token in tokens:
            if not 0 <= token < 1 << 32:
                raise DataError("decode", got=f"token {token}", need="0 or more, below 2^32")
        encoder, row, skip = self.encoder, list(tokens), not special
        return self._rules.run(
            "decode", len(row),
            lambda: str(encoder.decode(row, skip_special_tokens=skip)),
            lambda: str(encoder.decode_batch([row], skip_special_tokens=skip)[0]),
        )  # fmt: skip

    def pieces(self) -> TextPieces:
        """The text of tokens that come one by one."""
        return TextPieces(self)

    def chat(self, messages: Sequence[Message], *, answer: bool = True) -> list[int]:
        """The tokens of a chat, with the beginning of an answer; UsageError for files without a template."""
        if self.template is None:
            need = "a file with a chat template"
            raise UsageError("chat", got=f"{self._place} without a template", need=need, fix="generate(prompt)")
        return self.encode(self.template.text(messages, answer=answer))


def check_text(text: str) -> None:
    """DataError for what is no text of Unicode, and for one that is too long."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise DataError("encode", got="half of a surrogate pair", need="text of Unicode") from None
    if size > MOST_TEXT_BYTES:
        raise DataError("encode", got=f"{size:,} bytes", need=f"at most {MOST_TEXT_BYTES:,}", fix="encode parts")


def _encoded(encoder: Encoder, rules: SlowRules, text: str, *, whole: bool) -> Encoding:
    """What the package makes of a text; DataError where a rule of the file gives up, or takes too long."""
    try:
        return rules.run(
            "encode", len(text),
            lambda: encoder.encode(text, add_special_tokens=whole),
            lambda: encoder.encode_batch([text], add_special_tokens=whole)[0],
        )  # fmt: skip
    except DataError:
        raise
    except BaseException as error:
        # An expression that takes too many steps is a panic, which is no `Exception`.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        got = f"a text on which a rule of its file fails ({error})"[:200]
        raise DataError(
            "encode", got=got, need="a tokenizer whose rules fit the text", fix="look at its file"
        ) from None


def text_tokenizer(files: ModelFiles | EncoderFiles) -> TextTokenizer:
    """The tokenizer of a model's files; FormatError where they have none."""
    if files.gguf is None:
        return _of_folder(files.place)
    tokenizer = _of_gguf(files.gguf)
    if isinstance(files, EncoderFiles):
        frame_text(tokenizer.encoder, files.gguf)
    return tokenizer


def _of_gguf(file: GgufFile) -> TextTokenizer:
    encoder = tokenizer_of(file)
    held = [file.integer(f"tokenizer.ggml.{key}", 1 << 32) for key in ("bos_token_id", *_GGUF_ENDS)]
    count = encoder.get_vocab_size()
    start, *ends = (token if token < count else None for token in held)
    return TextTokenizer(
        encoder,
        start=start,
        ends=_ends(encoder, ends),
        template=file.text("tokenizer.chat_template", ""),
        place=str(file.path),
        prefixed=starts_text(file),
        end=next((token for token in ends if token is not None), None),
    )


def _ends(encoder: Encoder, named: Sequence[int | None]) -> frozenset[int]:
    usual = (encoder.token_to_id(name) for name in ENDS)
    return frozenset(token for token in (*named, *usual) if token is not None)


def _of_folder(folder: Path) -> TextTokenizer:
    place = folder / "tokenizer.json"
    if not os.path.exists(place):
        raise FormatError(
            str(folder), got="no tokenizer.json", need="a tokenizer", fix="save_pretrained of its tokenizer"
        )
    content = bytes(read_file(place, "a tokenizer.json", MOST_TOKENIZER_BYTES))
    try:
        encoder = Encoder.from_buffer(content)
    except Exception as error:  # the package raises plain exceptions, whatever is wrong
        raise FormatError(str(place), got=f"no tokenizer ({error})"[:200], need="a tokenizer.json") from None
    check_growth(str(place), encoder)
    encoder.no_truncation()
    encoder.no_padding()
    settings = read_json(folder / "tokenizer_config.json") if os.path.exists(folder / "tokenizer_config.json") else {}
    generation = (
        read_json(folder / "generation_config.json") if os.path.exists(folder / "generation_config.json") else {}
    )
    start = _token(encoder, settings.get("bos_token"))
    first = _encoded(encoder, SlowRules(encoder), "a", whole=True).ids[:1]
    end = _token(encoder, settings.get("eos_token"))
    return TextTokenizer(
        encoder,
        start=start,
        ends=_ends(encoder, [end, *_numbers(generation.get("eos_token_id"))]),
        template=_template(folder, settings),
        place=str(folder),
        prefixed=bool(start is not None and first == [start]),
        end=end,
    )


def _token(encoder: Encoder, named: object) -> int | None:
    """The number of a token that is a text, or an object with its content."""
    text = named.get("content") if isinstance(named, Mapping) else named
    return encoder.token_to_id(text) if isinstance(text, str) else None


def _numbers(held: object) -> list[int]:
    many = held if isinstance(held, list) else [held]
    return [token for token in many if isinstance(token, int) and not isinstance(token, bool) and token >= 0]


def _template(folder: Path, settings: Mapping[str, object]) -> str:
    beside = folder / "chat_template.jinja"
    if os.path.exists(beside):
        return read_file(beside, "a chat template", 1 << 20).decode(errors="replace")
    held = settings.get("chat_template")
    if isinstance(held, list):
        named = {each.get("name"): each.get("template") for each in held if isinstance(each, Mapping)}
        held = named.get("default")
    return held if isinstance(held, str) else ""
