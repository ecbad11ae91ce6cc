"""A language model behind HTTP, as clients of OpenAI's interface speak it. Needs the extra `serve`.

fields.py        fields of a request by name, checked
requests.py      what a request may ask for
waiting_line.py  requests that wait, up to a number
kept_rows.py     what was read of earlier requests
worker.py        threads that answer requests in their order
replies.py       answers, vectors and errors in the form of that interface
server_counts.py counts in the form of Prometheus
application.py   the routes, as an ASGI application
chat_page.html   a page to talk with the model
"""

from importlib.util import find_spec

for _package in ("starlette", "uvicorn"):
    if find_spec(_package) is None:
        fix = "pip install 'nnc[language,serve]'"
        raise ImportError(f"nnc.language: got no package {_package}; need it to serve. Fix: {fix}")
