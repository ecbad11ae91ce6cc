"""Language models of files: text in, text out, in a context whose bytes are known before anything is read.

model = nnc.language.load("model.gguf", context=2048)
for piece in model.stream("Once upon a time", 100): print(piece, end="")
model.chat([{"role": "user", "content": "Hello"}])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias, overload

from nnc.arguments import Count, Positive, Seed, Size, checked
from nnc.core.precautions.collection import RareCollections
from nnc.core.values.storage import trim_free_memory
from nnc.errors import ArgumentError, DataError, UsageError
from nnc.language.architectures import ModelFiles, open_files
from nnc.language.constraints.answer_forms import AnswerForm, AnswerForms
from nnc.language.constraints.token_masks import ConstrainedChoice
from nnc.language.conversation import Conversation
from nnc.language.kept_tokens import Drafts, KeptTokens, TokenPicker
from nnc.language.speculation import DraftModel, RepeatedRuns
from nnc.language.statement import NGRAM, context_of, limited, with_draft
from nnc.language.text.chat_template import Message
from nnc.language.text.pieces import TextPieces, stopped
from nnc.language.text.tokenizer import TextTokenizer, text_tokenizer
from nnc.language.text_stream import TextStream
from nnc.language.text_vectors import TextVectors
from nnc.language.token_shares import NotedChoice
from nnc.language.tuning.adapters import read_adapter
from nnc.nn.generation import TokenModel, generate
from nnc.nn.inference.next_token import Part, TokenChoice
from nnc.nn.model.model import Model
from nnc.nn.steps.keys import CacheType
from nnc.nn.steps.model_memory import ModelMemory
from nnc.symbolic.passes import QuantizationMode
from nnc.vocabulary.answers import Answering
from nnc.vocabulary.names import LANGUAGE_MODEL

USUAL_LENGTH = 256
Proposer: TypeAlias = "LanguageModel | Literal['ngram']"


class LanguageModel(Answering):
    """A model of a file with its tokenizer; made by `load`. Any thread may generate.

    With a `draft`, tokens that it proposes are read several at a time: a model of the same vocabulary, or "ngram", what
    followed the last few tokens where they stood before. The text is the one without it.
    """

    forms: ClassVar[Mapping[str, str]] = LANGUAGE_MODEL
    spoken: ClassVar[str] = "llm"

    def __init__(
        self,
        files: ModelFiles,
        tokenizer: TextTokenizer,
        model: TokenModel,
        draft: Proposer | None = None,
        backend: str = "",
    ) -> None:
        self.files, self.tokenizer, self.tokens, self.draft, self.backend = files, tokenizer, model, draft, backend
        if isinstance(draft, LanguageModel) and draft.tokens.outputs[0].shape[-1] != model.outputs[0].shape[-1]:
            got, need = (f"{each.outputs[0].shape[-1]} tokens" for each in (draft.tokens, model))
            raise UsageError("draft", got=f"a vocabulary of {got}", need=f"the {need} of the model")
        self._forms = AnswerForms(tokenizer, self._ends())

    def __repr__(self) -> str:
        return f"LanguageModel({self.files.place.name}, {self.files.architecture.name}, context={self.context})"

    @property
    def context(self) -> int:
        """How many positions there are for a prompt and what follows."""
        return int(self.tokens.inputs[0].shape[0])

    @overload
    def generate(
        self, prompt: str, length: Count = ..., *, temperature: Positive | None = ..., top_k: Count | None = ...,
        top_p: Part | None = ..., min_p: Part | None = ..., stop: str | Sequence[str] = ..., seed: Seed = ...,
        shorten: bool = ..., grammar: AnswerForm | None = ...,
    ) -> str: ...  # fmt: skip
    @overload
    def generate(
        self, prompt: list[str] | tuple[str, ...], length: Count = ..., *, temperature: Positive | None = ...,
        top_k: Count | None = ..., top_p: Part | None = ..., min_p: Part | None = ...,
        stop: str | Sequence[str] = ..., seed: Seed = ..., shorten: bool = ...,
        grammar: AnswerForm | None = ...,
    ) -> list[str]: ...  # fmt: skip
    @checked
    def generate(
        self,
        prompt: str | list[str] | tuple[str, ...],
        length: Count = USUAL_LENGTH,
        *,
        temperature: Positive | None = None,
        top_k: Count | None = None,
        top_p: Part | None = None,
        min_p: Part | None = None,
        stop: str | Sequence[str] = (),
        seed: Seed = 0,
        shorten: bool = False,
        grammar: AnswerForm | None = None,
    ) -> str | list[str]:
        """At most `length` tokens of text that follow the prompt, or each of several prompts, as one batch.

        The likeliest each time, or drawn (`TokenChoice`). A text ends before the model's end, and before a text of
        `stop`. A prompt that leaves no room for `length` tokens is an error, or loses its beginning to `shorten`.

        With a `grammar` only such tokens come that the answer stays within it, and it ends where the grammar lets it:
        a text in GBNF, the notation of llama.cpp, a JSON schema (a mapping), or a compiled regular expression. An
        answer of `length` tokens may be cut off before that.
        """
        if isinstance(prompt, str):
            return "".join(
                self.stream(
                    prompt, length, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, stop=stop,
                    seed=seed, shorten=shorten, grammar=grammar,
                )
            )  # fmt: skip
        if grammar is not None:
            return [
                self.generate(
                    text, length, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, stop=stop, seed=seed,
                    shorten=shorten, grammar=grammar,
                )
                for text in prompt
            ]  # fmt: skip
        rows = [self.fitting(self.tokenizer.encode(text), length, shorten=shorten) for text in prompt]
        written = generate(
            self.tokens, rows, length, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed,
            stop=self._ends(),
        )  # fmt: skip
        return ["".join(stopped(self._pieces(tokens), _stops(stop))) for tokens in written]

    @checked
    def stream(
        self,
        prompt: str | Sequence[Message],
        length: Count = USUAL_LENGTH,
        *,
        temperature: Positive | None = None,
        top_k: Count | None = None,
        top_p: Part | None = None,
        min_p: Part | None = None,
        stop: str | Sequence[str] = (),
        seed: Seed = 0,
        shorten: bool = False,
        grammar: AnswerForm | None = None,
        logprobs: Size | None = None,
        kept: KeptTokens | None = None,
    ) -> TextStream:
        """The text of `generate` in pieces, as soon as characters are whole; messages of a chat are answered.

        `shares` of the stream say how likely each token was, and the `logprobs` likeliest beside it, where that is
        given. What of the prompt was read before is not read again where the tokens `kept` are given.
        """
        choice = self.constrained(TokenChoice(temperature, top_k, top_p, seed, min_p), grammar)
        tokens = self.tokens_of(prompt)
        return self.continued(tokens, length, choice, stop=stop, shorten=shorten, logprobs=logprobs, kept=kept)

    def continued(
        self,
        tokens: list[int],
        length: int,
        choice: TokenPicker,
        *,
        stop: str | Sequence[str] = (),
        shorten: bool = False,
        logprobs: int | None = None,
        kept: KeptTokens | None = None,
    ) -> TextStream:
        """The same behind `tokens_of` a prompt, of which each next one is picked by `choice`."""
        row = self.fitting(tokens, length, shorten=shorten)
        noted = None if logprobs is None else NotedChoice(choice, logprobs)
        kept = KeptTokens(self.tokens, self.context) if kept is None else kept
        tokens_of = kept.follow(row, length, noted or choice, self._ends(), self._drafts())
        shares = () if noted is None else noted.shares
        return TextStream(tokens_of, self.tokenizer.pieces(), _stops(stop), len(row), length, shares)

    def tokens_of(self, prompt: str | Sequence[Message]) -> list[int]:
        """The tokens of a text, or of messages with the beginning of an answer behind them."""
        return self.tokenizer.encode(prompt) if isinstance(prompt, str) else self.tokenizer.chat(prompt)

    @checked
    def chat(
        self,
        messages: Sequence[Message],
        length: Count = USUAL_LENGTH,
        *,
        temperature: Positive | None = None,
        top_k: Count | None = None,
        top_p: Part | None = None,
        min_p: Part | None = None,
        stop: str | Sequence[str] = (),
        seed: Seed = 0,
        shorten: bool = False,
        grammar: AnswerForm | None = None,
    ) -> str:
        """The answer to messages with a role and a content, written by the template of the file."""
        return "".join(
            self.stream(
                messages, length, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, stop=stop, seed=seed,
                shorten=shorten, grammar=grammar,
            )
        )  # fmt: skip

    def constrained(self, choice: TokenChoice, grammar: AnswerForm | None) -> TokenPicker:
        """What picks the tokens of one answer: the choice itself, or those of its tokens that a grammar allows."""
        return choice if grammar is None else ConstrainedChoice(choice, self._forms.masks(grammar))

    @checked
    def conversation(self, system: str = "") -> Conversation:
        """A chat that keeps what was read: each message is read once, and the whole can lie in a file."""
        return Conversation(self.tokens, self.tokenizer, self.files.tensors.fingerprint(), system)

    @checked
    def memory(self, context: Size = 0, batch: Count = 1, prefix: Size = 0) -> ModelMemory:
        """The bytes of generation in `batch` rows of `context` tokens (all of the model's when 0), with a draft's.

        Rows have whole pages of 256 of their first `prefix` tokens in common.
        """
        length = context or self.context
        if length > self.context:
            raise UsageError("memory", got=f"a context of {length}", need=f"at most {self.context}", fix="load it so")
        if isinstance(self.tokens, Model):
            own = self.tokens.memory(batch, "generate", length, prefix)
        else:
            own = self.tokens.memory(batch, length, prefix)
        if not isinstance(self.draft, LanguageModel):
            return own
        return with_draft(own, self.draft.memory(min(length, self.draft.context)), batch)

    def vectors(self) -> TextVectors:
        """What gives vectors of texts by this model, by the weights of generation where they are in blocks."""
        shared = self.tokens if isinstance(self.tokens, Model) else None
        return TextVectors(self.files, self.tokenizer, self.context, backend=self.backend, shared=shared)

    def _drafts(self) -> Drafts | None:
        """Who proposes tokens of one text."""
        if isinstance(self.draft, LanguageModel):
            return DraftModel(KeptTokens(self.draft.tokens, self.draft.context))
        return None if self.draft is None else RepeatedRuns()

    def _ends(self) -> frozenset[int]:
        vocabulary = self.tokens.outputs[0].shape[-1]
        return frozenset(token for token in self.tokenizer.ends if token < vocabulary)

    def _pieces(self, tokens: Iterable[int]) -> Iterator[str]:
        return texts_of(self.tokenizer.pieces(), tokens)

    def fitting(self, tokens: list[int], length: int, *, shorten: bool = False) -> list[int]:
        """A prompt, within the context with what follows: the last of it if it may be shorter, or else DataError."""
        if not tokens:
            raise DataError("generate", got="an empty prompt", need="a text of at least one token")
        most = self.context - length
        if len(tokens) <= most:
            return tokens
        if most < 1 or not shorten:
            got = f"a prompt of {len(tokens)} tokens and {length} more"
            fix = "shorten=True, or load(…, context=…)" if most >= 1 else f"length={self.context - 1} at most"
            raise DataError("generate", got=got, need=f"at most {self.context}, the context", fix=fix)
        start = tokens[:1] if most > 1 and tokens[0] == self.tokenizer.start else []
        return [*start, *tokens[len(tokens) - most + len(start) :]]


def texts_of(pieces: TextPieces, tokens: Iterable[int]) -> Iterator[str]:
    """The text of tokens as they come."""
    for token in tokens:
        piece = pieces.push(token)
        if piece:
            yield piece
    rest = pieces.end()
    if rest:
        yield rest


def _stops(stop: str | Sequence[str]) -> tuple[str, ...]:
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    if not all(stops):
        raise ArgumentError("stop", got="an empty text", need="texts of at least one character")
    return stops


@checked
@RareCollections()
def load(
    path: Path | str,
    *,
    context: Size = 0,
    quantize: QuantizationMode | None = None,
    adapter: Path | str | None = None,
    cache: CacheType = "f32",
    draft: Path | str | None = None,
    mapped: bool = False,
    window: Size = 0,
    sinks: Size = 0,
    backend: str = "",
) -> LanguageModel:
    """A language model of a GGUF file, or of a folder of Hugging Face (config.json, safetensors, tokenizer.json).

    Keys and values of earlier tokens are held in `cache`: "bf16" takes half of the bytes of "f32", "int8" a quarter and
    a scale for each token and head, "int4" an eighth and such a scale. `adapter` is a folder of PEFT's, or of
    `FineTuning`: its products are added to weights of floats, and computed beside those in blocks.

    With a `window` no layer sees more than so many last tokens, and those that would see more the first `sinks` too
    (StreamingLLM): caches are as long as the window, whatever the context.

    `draft` proposes tokens that are read several at a time: a file of a smaller model, or "ngram" (`LanguageModel`).

    `context` is the number of positions, 4,096 or as many as the model has unless given. Matrices in blocks of few bits
    stay in them; those in floats become so by `quantize` (`FrozenGeneration`). FormatError for a file that is not
    whole, or not of a known architecture.

    With `mapped` matrices in blocks stay in a GGUF file too, and are read where they are used, for models that are
    larger than memory: nobody may change the file meanwhile.
    """
    files = limited(open_files(path, mapped=mapped), window, sinks)
    if mapped and not (files.gguf is not None and files.tensors.packed()):
        need = "a GGUF file with matrices in blocks"
        raise UsageError("load", got="mapped=True for a file of floats", need=need, fix="nnc quantize writes one")
    tokenizer, files = text_tokenizer(files), files.without_texts()
    # What a vocabulary took beside the tokenizer, before the weights are read: 15 to 20 MB.
    trim_free_memory()
    if adapter is not None:
        files = files.adapted(read_adapter(adapter, files))
    model = files.model(context_of(files, context))
    model.backend, model.cache_type = backend, cache
    own: Proposer | None = NGRAM if draft == NGRAM else None
    if draft is not None and own is None:
        most = min(model.inputs[0].shape[0], open_files(draft).facts.context)
        own = load(draft, context=most, cache=cache, window=window, sinks=sinks, backend=backend)
    return LanguageModel(files, tokenizer, _ready(files, model, quantize), own, backend)


def _ready(files: ModelFiles, model: Model, quantize: QuantizationMode | None) -> TokenModel:
    """The model with its tensors read: as the file has them, or as the kernels of generation want floats."""
    if not files.tensors.packed():
        return model.freeze_generation(quantize=quantize)
    if quantize is not None:
        got = f"quantize={quantize!r} for a file that is quantized"
        raise UsageError("load", got=got, need="a file of floats", fix="nnc quantize writes other formats")
    model.tensors()
    return model
