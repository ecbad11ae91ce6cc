"""The page of a server as people use it, in Debian's chromium: what is said is answered, and nobody else is asked."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.browser import opened_browser
from tests.language.small_models import write_text_model

pytest.importorskip("tokenizers", reason="the extra language is not installed")
pytest.importorskip("jinja2", reason="the extra language is not installed")
pytest.importorskip("starlette", reason="the extra serve is not installed")
pytest.importorskip("uvicorn", reason="the extra serve is not installed")

import uvicorn

from nnc import language
from nnc.language import LanguageModel

EVIL = "<img src=x onerror=\"document.title='taken'\">"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    place = write_text_model(tmp_path_factory.mktemp("models") / "tiny.gguf", context=256)
    return language.load(place, context=256, backend="reference")


@pytest.fixture(scope="module")
def address(model: LanguageModel) -> Iterator[str]:
    """Where the model is served."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        app = language.application(model, "tiny model")
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        server.should_exit = True
        thread.join(timeout=30)


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    page = browser.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    yield page
    assert said == []
    assert all(url.startswith(address) for url in asked)
    page.close()


def say(page: Any, text: str) -> None:
    page.fill("#text", text)
    page.keyboard.press("Enter")
    # The page forbids scripts that are made of texts, which other ways to wait are.
    page.get_by_role("button", name="Send", exact=True).wait_for()


def test_turns_of_a_chat_are_answered(page: Any, model: LanguageModel) -> None:
    page.get_by_role("heading", name="tiny model").wait_for()
    page.click("summary")
    page.fill("#temperature", "0")
    page.fill("#length", "6")
    page.fill("#system", "in")
    messages = [{"role": "system", "content": "in"}]
    for place, text in enumerate(("hello", EVIL)):
        messages.append({"role": "user", "content": text})
        say(page, text)
        answer = model.chat(messages, 6)
        messages.append({"role": "assistant", "content": answer})
        shown = page.locator(".message.assistant").nth(place)
        assert shown.evaluate("(part) => part.textContent") == answer
    assert page.title() == "tiny model"
    assert page.locator(".message.user").nth(1).evaluate("(part) => part.textContent") == EVIL
    assert "+ 6 tokens" in page.text_content("#pace")
    page.click("#reset")
    assert page.locator(".message").count() == 0


def test_what_cannot_be_answered_is_shown(page: Any) -> None:
    page.click("summary")
    page.fill("#length", "100000")
    page.fill("#text", "hello")
    page.route("**/v1/chat/completions", lambda route: route.fulfill(
        status=200, content_type="text/event-stream", body='data: {"error": {"message": "a server that ends"}}\n\n'
    ))  # fmt: skip
    page.click("#send")
    page.wait_for_selector(".message.error")
    assert page.text_content(".message.error") == "a server that ends"
