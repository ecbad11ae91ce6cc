"""The user's line, from inside the package."""

from __future__ import annotations

import inspect

from nnc.core.precautions.origin import caller_origin, inherited_origin


def line() -> int:
    """The line of the caller."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_the_file_and_line_of_the_call() -> None:
    assert caller_origin() == f"test_origin.py:{line()}"


def test_frames_of_the_package_are_passed_over() -> None:
    package = inspect.getsourcefile(caller_origin)
    assert package is not None
    inner = compile("def through(function):\n    return function()\n", package, "exec")
    names: dict[str, object] = {}
    exec(inner, names)
    through = names["through"]
    assert callable(through)
    assert through(caller_origin) == f"test_origin.py:{line()}"


def test_what_stands_for_something_has_its_origin() -> None:
    with inherited_origin("model.py:7"):
        with inherited_origin(""):
            assert caller_origin() == ""
        assert caller_origin() == "model.py:7"
    assert caller_origin() == f"test_origin.py:{line()}"
