"""Lines of our examples beside programs that others show for the same task: `python benchmarks/example_lines.py`.

Lines are those with code: no blank ones, comments or docstrings. Originals were counted so at the commit that their row
names, with their parsing of arguments; ours read data that ships with the package, or make it.
"""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
IDLE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
# Task, our second style, and of the original: repository, path, commit, lines.
ROWS = (
    ("autoencoder", "pytorch", "pytorch/examples", "vae/main.py", "0a8329cff339", 110),
    ("cartpole", "pytorch", "pytorch/examples", "reinforcement_learning/reinforce.py", "19f8d5a5180a", 77),
    ("dqn", "pytorch", "keras-team/keras-io", "examples/rl/deep_q_network_breakout.py", "139dbcdd4c8a", 128),
    ("gan", "pytorch", "pytorch/examples", "dcgan/main.py", "13caa078cd69", 223),
    ("pictures", "pytorch", "pytorch/examples", "mnist/main.py", "09654b86fcd7", 125),
    ("sequences", "pytorch", "pytorch/examples", "time_sequence_prediction/train.py", "04b1f3cec923", 88),
    ("triplets", "pytorch", "pytorch/examples", "siamese_network/main.py", "11cb38f9a394", 157),
)


def docstrings(tree: ast.AST) -> set[int]:
    """The lines of texts that stand alone."""
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    return {line for node in texts for line in range(node.lineno, (node.end_lineno or 0) + 1)}


def code_lines(source: str) -> int:
    """How many lines have code."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    held = {line for token in tokens if token.type not in IDLE for line in range(token.start[0], token.end[0] + 1)}
    return len(held - docstrings(ast.parse(source)))


def table() -> str:
    """Task, lines of ours in both styles, the original and its lines."""
    lines = ["| task | ours | in its second style | original | its lines |", "|---|---|---|---|---|"]
    for task, style, repository, path, commit, count in ROWS:
        own, second = (code_lines((EXAMPLES / folder / f"{task}.py").read_text("utf-8")) for folder in ("", style))
        lines.append(f"| {task} | {own} | {second} | `{repository}/{path}` at `{commit}` | {count} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
