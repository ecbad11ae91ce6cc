"""llama.cpp as a program for a Python that has its package (xllamacpp) starts and asks it.

`llama_server` gives each of `slots` texts `context` tokens; `asked` is the answer to a prompt, with its timings.
"""

LLAMA_CPP = """
import xllamacpp
def llama_server(path, threads, context=512, slots=1, port=None):
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel = path, context * slots, slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.verbosity = -1
    if port is not None:
        params.port = port
    return xllamacpp.Server(params)
def asked(server, prompt, count):
    ask = {"prompt": prompt, "n_predict": count, "temperature": 0, "cache_prompt": False, "ignore_eos": True}
    return server.handle_completions(ask)
"""
