"""The data sets that an experiment can name. Each is one file in `ladderspec.data.sets`.

>>> config = data_config("occluded_mnist", digits="embedded", canvas=16)
>>> data = config.open(seed=1)
>>> data.size("train"), data.classes, str(data.forms["frames"])
(1197, 10, '1x16x16 per frame')
>>> first = data.batches("train", epoch=0, size=50)[0]
>>> data.batch("train", 0, first, ["frames"])["frames"].shape
(50, 5, 1, 16, 16)
"""

from ladderspec.data.dataset import (
    Baseline,
    DataConfig,
    DataError,
    DataSet,
    Form,
    Split,
    config_of_run,
    data_config,
    register,
    registered,
)

__all__ = [
    "Baseline",
    "DataConfig",
    "DataError",
    "DataSet",
    "Form",
    "Split",
    "config_of_run",
    "data_config",
    "register",
    "registered",
]
