"""Arguments under another project's name: some are taken as they stand, the others get an error that names our form.

x.sum(dim=1, keepdim=True)      runs as x.sum(axis=1, keepdims=True), as torch takes NumPy's words
x.sum(out=z)                    sum: got out=; need axis, dtype, keepdims. Fix: nnc.sum(x, out=z): functions take it
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches

from nnc.errors import ArgumentError

# PyTorch's and Keras's words, and which of ours they are; and NumPy's for methods that PyTorch alone has.
WORDS: Mapping[str, tuple[str, ...]] = {
    "axis": ("dim", "dims"),
    "dim": ("axis", "axes", "dimension"),
    "diagonal": ("k", "offset"),
    "dims": ("axis", "axes", "shape"),
    "in_dims": ("in_axes",),
    "out_dims": ("out_axes",),
    "dim0": ("axis1",),
    "dim1": ("axis2",),
    "keepdim": ("keepdims",),
    "keepdims": ("keepdim",),
    "ddof": ("correction",),
    "size": ("shape",),
    "newshape": ("shape",),
    "rowvar": ("rows",),
    "rcond": ("rtol",),
    "minval": ("low",),
    "maxval": ("high",),
    "loc": ("mean",),
    "scale": ("deviation",),
    "std": ("deviation",),
    "p": ("rate",),
    "lr": ("rate", "learning_rate"),
    "learning_rate": ("rate", "lr"),
    "beta_1": ("beta1",),
    "beta_2": ("beta2",),
    "eps": ("epsilon",),
    "weight_decay": ("decay",),
    "kernel_size": ("kernel",),
    "strides": ("stride",),
    "dilation_rate": ("dilation",),
    "out_features": ("units",),
    "out_channels": ("filters",),
    "use_bias": ("bias", "has_bias"),
    "bias": ("has_bias",),
    "elementwise_affine": ("affine",),
    "num_channels": ("channels",),
    "hidden_size": ("units",),
    "num_layers": ("layers",),
    "num_heads": ("heads",),
    "num_groups": ("groups",),
    "num_embeddings": ("count",),
    "embedding_dim": ("features",),
    "steps": ("transition_steps",),
    "restore_best_weights": ("restore_best",),
    "scale_factor": ("factor",),
    "max_tokens": ("length",),
    "max_new_tokens": ("length",),
    "n_predict": ("length",),
    "temp": ("temperature",),
    "n_ctx": ("context",),
    "max_seq_len": ("context",),
}

# What was meant by a value that breaks an argument's rule.
MEANT: Mapping[str, str] = {
    "BatchNorm.momentum": "nn.BatchNorm(), which finds the channels; nn.BatchNorm2d(channels) as PyTorch has it",
    "MultiHeadAttention.causal": "nn.MultiHeadAttention(heads), which finds the features",
}

ARGUMENTS: Mapping[str, str] = {
    "out": "nnc.sum(x, out=z): functions take it, methods give the result",
    "where": "nnc.sum(x, where=mask): functions take it, or nnc.where(mask, x, 0.0)",
    "initial": "nnc.sum(x, initial=1.0): functions take it",
    "order": "leave it out: elements are in row-major order",
    "subok": "leave it out: there is one class of eager values",
    "like": "leave it out",
    "casting": "x.astype(dtype) before",
    "requires_grad": "nnc.variable(value): a variable is what gradients are asked for",
    "layout": "leave it out, or nnc.ops.convert_layout()",
    "pin_memory": "leave it out: the CPU reads memory where it is",
    "memory_format": "nnc.ops.convert_layout(x, layout)",
    "non_blocking": "leave it out",
    "verbose": "leave it out: callbacks=[nn.ProgressBar()] shows how it goes",
    "class_weight": "loss=nn.FunctionLoss(lambda output, target: …), with the weights in it",
    "sample_weight": "loss=nn.FunctionLoss(lambda output, target: …), with the weights in it",
    "from_logits": "leave it out: losses of classes take logits",
    "generator": "key=nnc.random.key(seed)",
    "stream": "leave it out",
    "precision": "leave it out: kernels compute in the element type",
    "preferred_element_type": "x.astype(dtype) before",
    "Model.inputs": "a, b = nn.Input((4,)), nn.Input((3,)); nn.Model(nn.Functional((a, b), output))",
    "Input.name": "leave it out",
    "Linear.key": "leave it out: nnc.seed(0) before",
    "rngs": "leave it out: nnc.seed(0) before",
    "DataLoader.multiprocessing_context": "leave it out: examples are made where they are asked for",
    "DataLoader.in_order": "leave it out: batches come in order",
    "DataLoader.pin_memory_device": "leave it out: the CPU reads memory where it is",
    "stable": "leave it out: sorting is always stable",
    "kind": "leave it out: sorting is always stable",
    "unbiased": "correction=1 for True, correction=0 for False",
    "p": "ord=",
    "betas": "beta1=, beta2=",
    "in_features": "leave it out: it follows from the input",
    "in_channels": "leave it out: it follows from the input",
    "input_shape": "nn.Model(layer, shape)",
    "input_dim": "nn.Model(layer, shape)",
    "activation": "a layer behind it: nn.Sequential([nn.Dense(10), nn.ReLU()])",
    "last_epoch": "leave it out: load_state_dict() of the schedule goes on behind so many steps",
    "batch_first": "leave it out: the batch is the first axis",
    "padding_mode": "nnc.pad(x, width, mode) before",
    "kernel_initializer": "nn.Initialized(layer, …)",
    "bias_initializer": "nn.Initialized(layer, …)",
    "kernel_regularizer": "decay= of the optimizer",
    "reduction": "the mean: multiply the loss, or nn.Weighted",
    "ignore_index": "nn.Weighted, with weights of 0",
    "do_sample": "temperature=0.8 draws; without it the likeliest is taken",
    "num_beams": "leave it out: one text is followed",
    "max_length": "length=, of what comes behind the prompt",
    "repeat_penalty": "temperature=, top_p= or min_p=",
    "repetition_penalty": "temperature=, top_p= or min_p=",
    "response_format": "grammar=, a JSON schema, GBNF or a compiled regular expression",
    "n_gpu_layers": 'with nnc.device("vulkan"): nnc.language.load(path)',
    "n_threads": "NNC_THREADS, or SETTINGS.threads",
    "n_batch": "leave it out: prompts are read in parts",
    "use_mmap": "mapped=",
    "chat_format": "leave it out: the file has the template",
    "torch_dtype": "leave it out: weights stay as the file has them",
    "device_map": 'with nnc.device("vulkan"): nnc.language.load(path)',
    "load_in_4bit": 'nnc.language.quantize(path, "q4_k", output) before',
    "load_in_8bit": 'nnc.language.quantize(path, "q8_0", output) before',
    "streamer": "llm.stream(prompt)",
}


# Words that say what holds here anyway, by function: they are left out.
IDLE: Mapping[str, tuple[str, ...]] = {
    # What is no array is static, memory is planned, and what a function uses of layers and optimizers is known.
    "compile": (
        "static_argnums", "static_argnames", "donate_argnums", "donate_argnames", "inputs", "outputs", "fullgraph",
        "mode", "dynamic", "options", "disable",
    ),
    **dict.fromkeys(("relu", "leaky_relu", "elu", "silu", "dropout"), ("inplace",)),
}  # fmt: skip


def translated(kwargs: Mapping[str, object], names: Collection[str], subject: str = "") -> dict[str, object] | None:
    """The arguments under our words, without idle ones; None where all are ours, or nobody's."""
    idle = IDLE.get(subject, ())
    result = {word: value for word, value in kwargs.items() if word not in idle or word in names}
    for word in [word for word in kwargs if word in result]:
        ours = next((name for name in WORDS.get(word, ()) if name in names and name not in result), None)
        if word not in names and ours is not None:
            result[ours] = result.pop(word)
    return result if result.keys() != kwargs.keys() else None


def unknown_argument(subject: str, kwargs: Mapping[str, object], names: Collection[str]) -> ArgumentError | None:
    """The error of the first argument that there is not, with our form for it; None where all are known."""
    word = next((word for word in kwargs if word not in names), None)
    if word is None:
        return None
    given = [name for name in names if name not in ("self", "args", "kwargs")]
    close = get_close_matches(word, given, n=1)
    fix = next((ours for ours in _ours(subject, word, given) if ours), f"{close[0]}=" if close else "")
    return ArgumentError(subject, got=f"{word}=", need=", ".join(given) or "no arguments", fix=fix)


def _ours(subject: str, word: str, names: Collection[str]) -> list[str]:
    """What the tables say of it: our word, or the row."""
    rows = [ARGUMENTS.get(f"{subject}.{word}", ""), ARGUMENTS.get(word, "")]
    return [f"{name}=" for name in WORDS.get(word, ()) if name in names] + rows


def parameters_of(function: Callable[..., object]) -> tuple[str, ...]:
    """The names of what a plain function takes by name."""
    code = function.__code__ if hasattr(function, "__code__") else None
    if code is None:
        return ()
    return code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
