"""Still images of digits."""

import numpy as np
import pytest

from ladderspec.data import DataError, data_config


def test_still_digits_are_split_and_scaled():
    data = data_config("digits").open()
    assert [data.size(split) for split in ("train", "valid", "test")] == [1197, 300, 300]
    batch = data.batch("train+valid", 0, np.arange(1497))
    assert batch["image"].shape == (1497, 1, 8, 8)
    assert (batch["image"].min(), batch["image"].max()) == (0, 1)
    assert np.bincount(batch["label"]).min() > 140
    data.check_input((1, 8, 8), None)
    with pytest.raises(DataError, match="write `side: 28`"):
        data.check_input((1, 28, 28), None)
    large = data_config("digits", side=28).open().batch("test", 0, np.arange(9))["image"]
    assert large.shape == (9, 1, 28, 28)
    assert not large[:, 0, :4].any()
    assert not large[:, 0, :, -4:].any()
    flat = data_config("digits", flat=True, labelled=50).open()
    flat.check_input((64,), None)
    assert np.bincount(flat.batch("train", 0, flat.labelled("train"))["label"]).tolist() == [5] * 10


def test_digits_without_a_label_can_be_left_out():
    data = data_config("digits", labelled=50, keep="labelled").open()
    assert (data.size("train"), data.size("valid"), data.labelled("train")) == (50, 300, None)
    chosen = data_config("digits", labelled=50).open()
    for name, values in data.batch("train", 0, np.arange(50)).items():
        wanted = chosen.batch("train", 0, chosen.labelled("train"))[name]
        np.testing.assert_array_equal(values, wanted)
    with pytest.raises(DataError, match="`keep: labelled` needs `labelled`"):
        data_config("digits", keep="labelled")
