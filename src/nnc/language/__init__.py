"""Language models in files of others: opened, planned, generated with, talked to. Text needs the extra `language`.

gguf/              the file format of llama.cpp, read and written
architectures/     what files say of a network becomes a decoder
text/              tokenizers and templates of chats
kept_tokens.py     tokens whose keys and values are kept
shared_steps.py    texts side by side, whose next tokens are computed in one step
speculation.py     tokens that are foreseen, and read together
block_writing.py   rows of floats as bytes of a format
calibration.py     which inputs of matrices matter, by texts
folder_conversion.py a folder as the parts of a GGUF file
requantize.py      a GGUF file, or a folder, in another format
constraints/       answers that follow a grammar
tuning/            fine-tuning within a limit, adapters, merged models
statement.py       the bytes of all that, before anything is read
language_model.py  load: text in, text out
text_vectors.py    vectors of texts
text_stream.py     an answer in pieces, and why it ended
serving/           a model behind HTTP
conversation.py    a chat that reads each message once
"""

from typing import TYPE_CHECKING

from nnc.core.running.late_names import late_names
from nnc.vocabulary.names import LANGUAGE

if TYPE_CHECKING:
    from nnc.language.conversation import Conversation
    from nnc.language.language_model import LanguageModel, load
    from nnc.language.requantize import quantize
    from nnc.language.serving.application import application
    from nnc.language.statement import memory, read_rate
    from nnc.language.text_vectors import embed
    from nnc.language.tuning.fine_tuning import FineTuning
    from nnc.language.tuning.merging import merge

# Modules are imported when a name of theirs is first used: files are read and planned without the extra.
_HOMES = {
    "Conversation": "conversation",
    "FineTuning": "tuning.fine_tuning",
    "merge": "tuning.merging",
    **dict.fromkeys(("LanguageModel", "load"), "language_model"),
    "embed": "text_vectors",
    "application": "serving.application",
    **dict.fromkeys(("memory", "read_rate"), "statement"),
    "quantize": "requantize",
}

if not TYPE_CHECKING:
    # A type checker reads the imports above instead, so that a name that is not there stays an error.
    __getattr__ = late_names(__name__, _HOMES, globals(), LANGUAGE)

__all__ = [
    "Conversation", "FineTuning", "LanguageModel", "application", "embed", "load", "memory", "merge", "quantize",
    "read_rate",
]  # fmt: skip
