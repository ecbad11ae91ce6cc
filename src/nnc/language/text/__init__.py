"""Text and tokens: tokenizers and templates of chats, as files bring them. Needs the extra `language`.

pre_tokenizers.py   how text is cut, a row per name in GGUF files
gguf_vocabulary.py  a tokenizer from the vocabulary of a GGUF file
tokenizer.py        encode, decode, and what ends a text
pieces.py           text that grows token by token, up to a word that stops it
chat_template.py    messages as the text that a model was trained on
"""

from importlib.util import find_spec

for _package in ("tokenizers", "jinja2"):
    if find_spec(_package) is None:
        raise ImportError(
            f"nnc.language: got no package {_package}; need it for text. Fix: pip install 'nnc[language]'"
        )
