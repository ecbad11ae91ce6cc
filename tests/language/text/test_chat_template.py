"""Templates write chats as models were trained on them; none runs long, leaves its sandbox or fills memory."""

from __future__ import annotations

import sys

import pytest
from tests.language.small_models import TEMPLATE

pytest.importorskip("jinja2", reason="the extra language is not installed")

from nnc.errors import DataError, FormatError
from nnc.language.text.chat_template import ChatTemplate

CHAT = [{"role": "system", "content": "be kind"}, {"role": "user", "content": " hi "}]
NAMES = {"bos_token": "<s>", "eos_token": "</s>"}


def test_messages_become_the_text_of_a_chat() -> None:
    made = ChatTemplate(TEMPLATE, NAMES)
    start = "<|im_start|>system\nbe kind<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
    assert made.text(CHAT, answer=False) == start
    assert made.text(CHAT) == f"{start}<|im_start|>assistant\n"


def test_what_templates_of_others_use_is_there() -> None:
    source = (
        "{{ bos_token }}{% set seen = namespace(count=0) %}{% for m in messages %}{% if loop.first %}{% continue %}"
        "{% endif %}{% set seen.count = seen.count + 1 %}{{ m | tojson }}{% endfor %}{{ seen.count }}"
        "{{ messages[1:] | map(attribute='role') | join(',') }}{{ eos_token }}"
    )
    assert ChatTemplate(source, NAMES).text(CHAT) == '<s>{"role": "user", "content": " hi "}1user</s>'


HOSTILE = {
    "a loop that is long": "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}",
    "a text many times": "{{ 'a' * 1000000000 }}",
    "a list many times": "{{ ([0] * 1000000000) | length }}",
    "a power": "{{ 9 ** 999999999 }}",
    "a wide number": "{{ '%1000000000d' % 1 }}",
    "classes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "a format": "{{ '{0.__class__}'.format(messages) }}{{ messages.__init__.__globals__ }}",
    "a large range": "{{ range(1000000000) | list }}",
    "a change of messages": "{{ messages.append(1) }}",
    "an error of its own": "{{ raise_exception('roles must alternate') }}",
    "a missing attribute": "{{ messages[0].missing.more }}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_is_an_error(name: str) -> None:
    before = sys.gettrace()
    with pytest.raises((DataError, FormatError)):
        ChatTemplate(HOSTILE[name], NAMES).text(CHAT)
    assert sys.gettrace() is before


@pytest.mark.parametrize("source", ["{% for %}", "{{ x | centre }}", "{% include 'secret' %}{% if %}", "a" * (1 << 18)])
def test_what_is_no_template_is_an_error(source: str) -> None:
    with pytest.raises(FormatError, match="chat template"):
        ChatTemplate(source, NAMES)


@pytest.mark.parametrize("messages", [[], [{}], [{"role": "user"}], [{"role": 1, "content": "a"}], ["hi"]])
def test_messages_that_are_none_are_an_error(messages: list) -> None:
    with pytest.raises(DataError, match="chat: got"):
        ChatTemplate(TEMPLATE, NAMES).text(messages)
