from __future__ import annotations

import pytest

from nnc.core.running.late_names import late_names


def test_a_name_is_imported_once_and_an_unknown_one_names_the_package() -> None:
    names: dict[str, object] = {}
    get = late_names("nnc.core", {"Settings": "settings"}, names)
    assert get("Settings") is names["Settings"]
    with pytest.raises(AttributeError, match="module 'nnc.core' has no 'Other'"):
        get("Other")
