"""A language model behind HTTP, as clients of OpenAI's interface speak it. Needs the extra `serve`.

requests.py     what a request may ask for, checked before it waits
worker.py       one thread that answers requests in their order, up to a number that wait
application.py  the routes, as an ASGI application
"""

from importlib.util import find_spec

for _package in ("starlette", "uvicorn"):
    if find_spec(_package) is None:
        fix = "pip install 'nnc[language,serve]'"
        raise ImportError(f"nnc.language: got no package {_package}; need it to serve. Fix: {fix}")
