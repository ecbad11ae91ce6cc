"""Files that are written: models, modules, functions and graphs as ONNX.

saving.py           save: a model or a graph as a file, replaced whole or not at all
size_terms.py       constants that follow open sizes, as nodes that compute them
function_export.py  export: what a module or a function does to arrays, in PyTorch's words
"""
