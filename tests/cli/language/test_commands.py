"""Commands on language models in files: generate, chat, plan, quantize, embed."""

from __future__ import annotations

import io
import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.forks import COMMANDS, forking
from tests.language.small_models import write_text_model

pytest.importorskip("tokenizers", reason="the extra language is not installed")
pytest.importorskip("jinja2", reason="the extra language is not installed")

from nnc import language
from nnc.cli.language import chat as chat_command
from nnc.language.gguf import read_gguf

FAST = ("--context", "64", "--backend", "reference")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text_model(tmp_path_factory.mktemp("models") / "tiny.gguf")


def test_generate_streams_the_text_of_python(call: Callable[..., Any], place: Path) -> None:
    model = language.load(place, context=64, backend="reference")
    ran = call("generate", place, "--prompt", "hello the", "--length", 6, "--greedy", *FAST)
    assert ran.code == 0
    assert ran.err.startswith("nnc: ")
    assert "tokens/s" in ran.err
    told = call("generate", place, "--prompt", "hello the", "--length", 6, "--seed", 3, "--json", *FAST)
    expected = model.generate("hello the", 6, temperature=0.8, seed=3)
    assert json.loads(told.out)["text"] == expected


def test_generate_refuses_what_takes_more_than_the_limit(call: Callable[..., Any], place: Path) -> None:
    complaint = call("generate", place, "--prompt", "a", "--limit", "10KB", *FAST).complaint()
    assert "--limit: got" in complaint
    assert "Fix: a smaller --context" in complaint
    beyond = call("generate", place, "--context", 65)
    assert "65 tokens; need at most 64, for which the model was trained" in beyond.complaint()


def test_the_extra_that_is_absent_is_named(
    call: Callable[..., Any], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(*_: object, **__: object) -> None:
        raise ImportError("got no package tokenizers")

    monkeypatch.setattr(language, "load", absent)
    assert "pip install 'nnc[language]'" in call("generate", place, *FAST).complaint()


def chatted(call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, place: Path, *lines: str) -> Any:
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
    return call("chat", place, "--length", 4, "--system", "in", *FAST)


def test_a_chat_is_saved_loaded_and_begun_anew(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, place: Path, folder: Path
) -> None:
    ran = chatted(call, monkeypatch, place, "he", "", "/save a.json", "/reset", "he", "/load a.json", "/save b.json")
    assert ran.code == 0
    assert ran.err == ""
    half = len(ran.out) // 2
    assert ran.out[:half] == ran.out[half:]
    held = json.loads((folder / "a.json").read_text())
    assert [message["role"] for message in held["messages"]] == ["system", "user", "assistant"]
    assert held == json.loads((folder / "b.json").read_text())


def test_answers_of_a_chat_are_lines_of_json_where_that_is_asked_for(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("he\nin\n"))
    lines = call("chat", place, "--length", 4, "--json", *FAST).out.splitlines()
    first = language.load(place, context=64, backend="reference").chat([{"role": "user", "content": "he"}], 4)
    assert json.loads(lines[0]) == {"role": "assistant", "content": first}
    assert len(lines) == 2


def test_what_a_chat_cannot_do_is_a_line_and_no_end(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    ran = chatted(call, monkeypatch, place, "/save", "/load none.json", "/spin", "in" * 99, "he", "/quit", "never")
    assert ran.code == 0
    lines = ran.err.splitlines()
    assert len(lines) == 4
    assert "none.json" in lines[1]
    assert "a chat of" in lines[3]


def test_an_interrupt_ends_the_answer_and_not_the_chat(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, place: Path, folder: Path
) -> None:
    shown, answers = chat_command.shown, []

    def interrupted(pieces: Any) -> str:
        answers.append(pieces)
        if len(answers) == 1:
            next(pieces)
            raise KeyboardInterrupt
        return shown(pieces)

    monkeypatch.setattr(chat_command, "shown", interrupted)
    ran = chatted(call, monkeypatch, place, "he", "he", "/save a.json")
    assert ran.code == 0
    roles = [message["role"] for message in json.loads((folder / "a.json").read_text())["messages"]]
    assert roles == ["system", "user", "assistant", "user", "assistant"]


def test_plan_tells_bytes_before_anything_is_read(call: Callable[..., Any], place: Path) -> None:
    facts = json.loads(call("plan", place, "--context", 64, "--batch", 2, "--json").out)
    memory = language.memory(place, context=64, batch=2)
    assert (facts["cache_bytes"], facts["weight_bytes"]) == (memory.cache, memory.weights)
    assert facts["total_bytes"] == memory.total
    for option in (["--train"], ["--html", "map.html"], ["--size", "batch=2"]):
        ran = call("plan", place, *option)
        assert ran.code == 2
        assert "an ONNX file for these" in ran.err
    ran = call("plan", place, "--sinks", 4)
    assert ran.code != 0
    assert "a window of last ones" in ran.err
    ran = call("plan", place, "--context", 64, "--limit", "1KB")
    assert ran.code == 1
    assert "cache" in ran.out


def test_a_server_that_is_stopped_says_so_and_tells_its_port(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    """`uvicorn.run` ends as if nothing had been, and port 0 was told as it was asked for."""
    uvicorn, ports = pytest.importorskip("uvicorn", reason="the extra serve is not installed"), list[int]()

    def stopped(self: object, sockets: Any) -> None:
        ports.append(sockets[0].getsockname()[1])
        raise KeyboardInterrupt

    monkeypatch.setattr(uvicorn.Server, "run", stopped)
    ran = call("serve", place, "--port", 0, "--json", *FAST)
    assert (ran.code, json.loads(ran.out)["url"]) == (130, f"http://127.0.0.1:{ports[0]}/v1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        complaint = call("serve", place, "--port", taken.getsockname()[1], *FAST).complaint()
    assert "in use; need an address of this machine and a free port. Fix: --port 0" in complaint


ENDING = """
import json, os, signal, sys, threading, time
from http.client import HTTPConnection
import nnc.cli.language.serve as serving
from nnc.cli.main import main
from nnc.language import language_model
from nnc.language.serving import worker
serving.GRACE = worker.LAST_SECONDS = 0.2
worker.AnsweringWorker._stream = lambda *asked: time.sleep(60)
replies = []

def ask(port, stream):
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    body = json.dumps({"prompt": "he", "stream": stream})
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    replies.append((reply.status, "a server that ends" in reply.read().decode()))

def told(facts):
    port = int(facts["url"].rpartition(":")[2].split("/")[0])
    asking = [threading.Thread(target=ask, args=(port, stream)) for stream in (False, True)]

    def stop():
        for thread in asking:
            thread.start()
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGINT)
        for thread in asking:
            thread.join()

    threading.Thread(target=stop, daemon=True).start()

serving.write_json = told
began = time.monotonic()
code = main(["serve", sys.argv[1], "--port", "0", "--json", "--context", "64", "--backend", "reference"])
print(code, sorted(replies), time.monotonic() - began < 20, flush=True)
"""


def test_answers_that_outlast_the_end_of_a_server_are_told_so(place: Path) -> None:
    """uvicorn cancelled them, which was a trace of Python's, and a prompt that was read was waited for a minute."""
    pytest.importorskip("uvicorn", reason="the extra serve is not installed")
    code, out, told = forking(COMMANDS).run(ENDING, str(place))
    assert (code, out) == (0, "130 [(503, True), (503, True)] True\n"), told
    assert "Traceback" not in told


def test_quantize_writes_a_file_that_is_read(call: Callable[..., Any], place: Path, folder: Path) -> None:
    ran = call("quantize", place, "--to", "q4_0", "--output", "small.gguf", "--json")
    facts = json.loads(ran.out)
    assert facts["bytes"] == (folder / "small.gguf").stat().st_size < place.stat().st_size
    assert 0 < facts["error"] < 0.2
    kinds = {row.name: row.kind.name for row in read_gguf(folder / "small.gguf").tensors.values()}
    assert (kinds["blk.0.attn_q.weight"], kinds["token_embd.weight"]) == ("q4_0", "q8_0")
    assert kinds["output_norm.weight"] == "f32"
    assert call("generate", "small.gguf", "--length", 2, *FAST).code == 0
    assert "one of f32" in call("quantize", place, "--to", "q9", "--output", "b.gguf").complaint()


def test_embed_writes_a_vector_for_each_text(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    rows = [json.loads(line) for line in call("embed", place, "hello", "the", *FAST).out.splitlines()]
    assert [row["text"] for row in rows] == ["hello", "the"]
    assert sum(value * value for value in rows[0]["vector"]) == pytest.approx(1)
    whole = json.loads(call("embed", place, "hello", "the", "--json", *FAST).out)
    assert whole == {"texts": ["hello", "the"], "vectors": [row["vector"] for row in rows]}
    monkeypatch.setattr(sys, "stdin", io.StringIO("hello\n"))
    assert json.loads(call("embed", place, *FAST).out)["vector"] == rows[0]["vector"]
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert "no texts" in call("embed", place, *FAST).complaint()
