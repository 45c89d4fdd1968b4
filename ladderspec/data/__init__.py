"""The data sets an experiment can name. Words alone: numpy comes in when one is opened.

>>> words = words_of("occluded_mnist", digits="embedded", canvas=16)
>>> data = words.open(seed=1)
>>> data.size("train"), data.classes, str(data.forms["frames"])
(1197, 10, '1x16x16 per frame')
>>> first = data.batches("train", epoch=0, size=50)[0]
>>> data.batch("train", 0, first, ["frames"])["frames"].shape
(50, 5, 1, 16, 16)
"""

from ladderspec.data._contract import (
    DataError,
    DataSet,
    DataWords,
    Form,
    Split,
)
from ladderspec.data._registry import DataField, register, registered, words_of
from ladderspec.data.arrays import Arrays
from ladderspec.data.digits import Digits
from ladderspec.data.music import Music
from ladderspec.data.occluded_mnist import OccludedMnist

__all__ = [
    "Arrays",
    "DataError",
    "DataField",
    "DataSet",
    "DataWords",
    "Digits",
    "Form",
    "Music",
    "OccludedMnist",
    "Split",
    "register",
    "registered",
    "words_of",
]
