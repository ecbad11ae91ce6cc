"""Lines of our examples beside programs that others show for the same task: `python benchmarks/example_lines.py`.

Lines are those with code: no blank ones, comments or docstrings. Originals were counted by `code_lines` at the commit
that their row names, as they stand: with their parsing of arguments, their pictures and their data.
"""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path
from typing import NamedTuple

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
IDLE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
STYLES = {"jax": "JAX", "mlx": "MLX", "pytorch": "PyTorch"}


class Row(NamedTuple):
    """A task, our second style of it, and the original: where it is, its lines, and in what it differs."""

    task: str
    style: str
    repository: str
    path: str
    commit: str
    lines: int
    differs: str


ROWS = (
    Row("autoencoder", "pytorch", "pytorch/examples", "vae/main.py", "cd01f93000a6", 102,
        "parses arguments, saves pictures, draws codes (a VAE)"),
    Row("cartpole", "pytorch", "pytorch/examples", "reinforcement_learning/reinforce.py", "2f5815e164db", 89,
        "parses arguments; the pole is gym's, ours is NNC's"),
    Row("dqn", "pytorch", "keras-team/keras-io", "examples/rl/deep_q_network_breakout.py", "8bda227c08ad", 116,
        "learns a larger game from its pictures"),
    Row("embeddings", "pytorch", "ml-explore/mlx-examples", "bert/model.py", "7e1949aa418d", 138,
        "writes the encoder out, parses arguments; another script renames weights, words come from transformers. "
        "Our second style takes 32 lines of the first, for names and words"),
    Row("gan", "pytorch", "pytorch/examples", "dcgan/main.py", "13caa078cd69", 223,
        "images of five data sets, arguments, checkpoints; ours draws points"),
    Row("loop", "pytorch", "pytorch/tutorials", "beginner_source/transfer_learning_tutorial.py", "74ba612b9509", 161,
        "trains twice, from given weights, on augmented images, and shows pictures; no sums of gradients, no clipping, "
        "no mean of weights"),
    Row("neural_ode", "mlx", "rtqichen/torchdiffeq", "examples/ode_demo.py", "01f1c190836a", 143,
        "two fifths of it are arguments and pictures; its steps come from its package, ours are written out"),
    Row("physics", "mlx", "lululxvi/deepxde", "examples/pinn_forward/Poisson_Dirichlet_1d.py", "03f881a34355", 30,
        "a package for such equations alone; without its pictures it has 21 lines, fewer than ours"),
    Row("pictures", "pytorch", "pytorch/examples", "mnist/main.py", "f15fac72e011", 94,
        "parses arguments; digits that it downloads, ours reads a folder of PNG"),
    Row("resume", "pytorch", "pytorch/tutorials",
        "recipes_source/recipes/saving_and_loading_a_general_checkpoint.py", "0a7e68666de5", 41,
        "a larger network, saved and loaded, and not trained"),
    Row("sequences", "pytorch", "pytorch/examples", "time_sequence_prediction/train.py", "e27e2585a5b6", 78,
        "goes on with waves of one length and draws them; ours tells sequences of many lengths apart"),
    Row("small_memory", "jax", "cybertronai/gradient-checkpointing", "test/keras_test.py", "b2b7def2e15f", 45,
        "trains until it is right, once; ours trains with and without a limit and compares the bits"),
    Row("tables", "pytorch", "keras-team/keras-io",
        "examples/structured_data/structured_data_classification_from_scratch.py", "002c7bbfe68f", 165,
        "names the columns of its file by hand, and asks about one new row"),
    Row("text", "pytorch", "keras-team/keras-io", "examples/generative/text_generation_with_miniature_gpt.py",
        "b8bb4c0d5068", 162, "learns words of fifty thousand reviews; its block is written out"),
    Row("triplets", "pytorch", "pytorch/examples", "siamese_network/main.py", "f62b4aec7bff", 165,
        "parses arguments; pairs through a ResNet-18, ours are triplets. Our second style takes 5 lines of the first"),
)  # fmt: skip


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
    """Task, lines of ours in both styles, those of the original, ratios, the original, and in what it differs."""
    lines = [
        "| task | ours | second style | its lines | original's lines | ratios | original | the original |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        own, second = (
            code_lines((EXAMPLES / folder / f"{row.task}.py").read_text("utf-8")) for folder in ("", row.style)
        )
        original = f"`{row.repository}/{row.path}` at `{row.commit}`"
        ratios = f"{own / row.lines:.2f}, {second / row.lines:.2f}"
        cells = (row.task, own, STYLES[row.style], second, row.lines, ratios, original, row.differs)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
