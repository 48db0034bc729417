"""Changed kernels for experiments."""

import pytest

from helpers.errors import ArgumentError
from helpers.rungs import find_rung
from helpers.variants import save_text, variant


def test_a_variant_lies_apart_from_the_kernel(tmp_path, monkeypatch):
    monkeypatch.setenv("HOPPER_CACHE", str(tmp_path))
    before = find_rung(2).path.read_text()
    path = variant(2, ("TILE = 32", "TILE = 16"), name="small")
    assert path == tmp_path / "variants" / "small.cu"
    assert "TILE = 16" in path.read_text() and find_rung(2).path.read_text() == before


@pytest.mark.parametrize("name", ["", "../up", "a/b"])
def test_a_name_that_leaves_the_folder_is_refused(name):
    with pytest.raises(ArgumentError, match="not a plain file name"):
        save_text("text", name)
