"""Bags as rows: transformers to a matrix, and the classifiers built on them."""

from bagwise.embedding._mi_fv import MiFV
from bagwise.embedding._milde import MILDE
from bagwise.embedding._miles import MILES
from bagwise.embedding._prototypes import PrototypeEmbedding
from bagwise.embedding._sliced_wasserstein import SlicedWassersteinEmbedding
from bagwise.embedding._soft_ksc import SoftKSCEmbedding
from bagwise.embedding._two_level import TwoLevelClassifier
from bagwise.embedding.codebooks import BagOfWords, MiVLAD

__all__ = [
    "MILDE",
    "MILES",
    "BagOfWords",
    "MiFV",
    "MiVLAD",
    "PrototypeEmbedding",
    "SlicedWassersteinEmbedding",
    "SoftKSCEmbedding",
    "TwoLevelClassifier",
]
