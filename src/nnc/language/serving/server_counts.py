"""Counts of a server in the text form of Prometheus."""

from __future__ import annotations

from nnc.language.serving.worker import AnsweringWorker


def metrics_of(worker: AnsweringWorker) -> str:
    """Counts since the start and numbers of this moment, each with what it is."""
    counts = worker.counts
    rows = (
        ("answered_total", "counter", "answers that came to their end", counts.answered),
        ("refused_total", "counter", "answers that there was no room to wait for", counts.refused),
        ("given_up_total", "counter", "answers whose clients had left", counts.given_up),
        ("failed_total", "counter", "answers that ended with an error", counts.failed),
        ("pieces_total", "counter", "pieces of text that were sent", counts.pieces),
        ("prompt_tokens_total", "counter", "tokens of prompts that were answered", counts.read),
        ("reused_tokens_total", "counter", "tokens of prompts that had been read before", worker.reused),
        ("generated_tokens_total", "counter", "tokens that were written", counts.written),
        ("waited_seconds_total", "counter", "time that answers waited for a slot", round(counts.waited, 3)),
        ("answering_seconds_total", "counter", "time that slots were answering", round(counts.seconds, 3)),
        ("waiting", "gauge", "answers that wait for a slot", worker.waiting),
        ("answering", "gauge", "slots that answer", worker.answering),
        ("slots", "gauge", "answers that are written side by side", worker.slots),
    )
    lines = (
        f"# HELP nnc_{name} {what}\n# TYPE nnc_{name} {kind}\nnnc_{name} {value}\n" for name, kind, what, value in rows
    )
    return "".join(lines)
