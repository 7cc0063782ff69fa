"""The classic data sets: sizes, sources, and the fingerprints they must have.

The fingerprints are `content_hash of `bagwise.datasets._fetch`` of bags and labels;
they hold for every file with the right content, in any order or format.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """Where a set can be downloaded, and which file of the archive contains it."""

    url: str
    member: str
    format: str  # "musk" or "svmlight"


@dataclass(frozen=True)
class DatasetInfo:
    """What is known of a data set before it is read."""

    name: str
    n_bags: int
    n_instances: int
    n_features: int
    sha256: str
    title: str
    reference: str
    n_positive: int | None = None
    n_classes: int = 2
    sources: tuple[Source, ...] = ()
    file: str = ""
    labels: tuple[str, ...] = ("y",)
    test_sha256: str | None = None

    @property
    def filename(self) -> str:
        """Name of the npz file in a data folder."""
        return f"{self.file or self.name}.npz"

    @property
    def homepage(self) -> str | None:
        """Address to download by hand."""
        return self.sources[0].url if self.sources else None


_UCI = "https://archive.ics.uci.edu"
_ANDREWS = (
    "http://www.cs.columbia.edu/~andrews/mil/data/MIL-Data-2002-Musk-Corel-Trec9.tgz"
)
_DIETTERICH = (
    "Dietterich, T. G., Lathrop, R. H., Lozano-Perez, T., Solving the multiple "
    "instance problem with axis-parallel rectangles, Artificial Intelligence 89, 1997."
)
_ANDREWS_REF = (
    "Andrews, S., Tsochantaridis, I., Hofmann, T., Support vector machines for "
    "multiple-instance learning, NIPS 2002."
)
_CHEN = (
    "Chen, Y., Bi, J., Wang, J. Z., MILES: multiple-instance learning via embedded "
    "instance selection, IEEE TPAMI 28, 2006."
)
_ZHOU = (
    "Zhou, Z.-H., Sun, Y.-Y., Li, Y.-F., Multi-instance learning by treating "
    "instances as non-i.i.d. samples, ICML 2009."
)
_WANG = (
    "Wang, C., Scott, S., Zhang, J., Tao, Q., Fomenko, D., Gladyshev, V., A study in "
    "modeling low-conservation protein superfamilies, 2004."
)
_DOOLY = (
    "Dooly, D. R., Zhang, Q., Goldman, S. A., Amar, R. A., Multiple-instance learning "
    "of real-valued data, Journal of Machine Learning Research 3, 2002."
)


def _musk(version: int) -> tuple[Source, ...]:
    number, file = 73 + version, f"clean{version}.data"
    return (
        Source(
            f"{_UCI}/static/public/{number}/musk+version+{version}.zip", file, "musk"
        ),
        Source(f"{_UCI}/ml/machine-learning-databases/musk/{file}.Z", file, "musk"),
    )


def _andrews(member: str) -> tuple[Source, ...]:
    return (Source(_ANDREWS, member, "svmlight"),)


def _images(name: str, n_instances: int, sha256: str) -> DatasetInfo:
    return DatasetInfo(
        name=name,
        n_bags=200,
        n_instances=n_instances,
        n_features=230,
        n_positive=100,
        sha256=sha256,
        title=f"Corel images: does the picture show a {name}? Instances are segments.",
        reference=_ANDREWS_REF,
        sources=_andrews(f"{name.capitalize()}/data_100x100.svm"),
    )


def _text(number: int, n_instances: int, sha256: str) -> DatasetInfo:
    return DatasetInfo(
        name=f"trec{number}",
        n_bags=400,
        n_instances=n_instances,
        n_features=67085,
        n_positive=200,
        sha256=sha256,
        title=f"Medline documents (TREC9, Text{number}); instances are passages.",
        reference=_ANDREWS_REF,
        sources=_andrews(f"{number}/data_200x200.svm"),
    )


def _corel(n_classes: int, n_instances: int, sha256: str) -> DatasetInfo:
    return DatasetInfo(
        name=f"corel{100 * n_classes}",
        n_bags=100 * n_classes,
        n_instances=n_instances,
        n_features=9,
        n_classes=n_classes,
        sha256=sha256,
        title=f"Corel images of {n_classes} categories; instances are regions.",
        reference=_CHEN,
    )


def _news(group: str, n_instances: int, sha256: str) -> DatasetInfo:
    return DatasetInfo(
        name=f"newsgroups_{group}",
        n_bags=100,
        n_instances=n_instances,
        n_features=200,
        n_positive=50,
        sha256=sha256,
        title=f"Bags of 20-newsgroups posts, positive if some are from {group}.",
        reference=_ZHOU,
        labels=("y_zhou", "y"),
    )


_SETS = (
    DatasetInfo(
        name="musk1",
        n_bags=92,
        n_instances=476,
        n_features=166,
        n_positive=47,
        sha256="00c833355a765b41b67d328c0a54f476fd5459ee89b203d64f37a7d469a45cc9",
        title="Does a molecule smell of musk? Instances are conformations (version 1).",
        reference=_DIETTERICH + " UCI 74, CC BY 4.0, doi 10.24432/C5ZK5B.",
        sources=_musk(1),
    ),
    DatasetInfo(
        name="musk2",
        n_bags=102,
        n_instances=6598,
        n_features=166,
        n_positive=39,
        sha256="f9e85e1b0108571d41528d9a8f60fb05c55e5f9fa97735d0c3d0d92a26619015",
        title="Does a molecule smell of musk? Instances are conformations (version 2).",
        reference=_DIETTERICH + " UCI 75, CC BY 4.0, doi 10.24432/C51608.",
        sources=_musk(2),
    ),
    _images(
        "elephant",
        1391,
        "9acc8482165a7b0bba892d47a24474e71dc493c41f8799c8b556c7b6d8d9a377",
    ),
    _images(
        "fox", 1320, "b0b4f5a95c20b1a765e7165639e2fd918b8b41b315326a00c2e70252e4d9fac9"
    ),
    _images(
        "tiger",
        1220,
        "7e802e1f08a181eafa7d237436c216a7c6677bb3ea7704e6357857dfe4fee504",
    ),
    _text(1, 3224, "f76223e4fe6520fdb9f52ecab61ef196fb5c21d48975a88f533f62e0eb32d394"),
    _text(2, 3344, "042a2bc649535ba9667bbe6a1e76f022697c90e56bdb774752194b33c7951455"),
    _corel(
        10, 4306, "c45b830eb86329909102f23137afe3df202ab5870a7c50f39546bc875af1ab4b"
    ),
    _corel(
        20, 7947, "89faf0df0c065207d7ce2734d057e37f21feebd564a2428e75b6b43e74aa1c55"
    ),
    DatasetInfo(
        name="protein",
        n_bags=193,
        n_instances=26611,
        n_features=9,
        n_positive=25,
        sha256="f512a554f3b42c5397da77d8e296315a174dc384360c42107faf41d6df221cbb",
        title="Is a protein of the Trx-fold superfamily? Instances are windows.",
        reference=_WANG,
    ),
    DatasetInfo(
        name="lj-16.30.2",
        n_bags=60,
        n_instances=245,
        n_features=30,
        n_classes=0,
        sha256="bc078c4c819ddbb32cc938c03bb3976b17cf49fa79926c242aa1547e76bef85b",
        test_sha256="02169737a1a6e0534543a6d1ba79c2dfd56102581d57a29064d4ae531fa6880c",
        title="The same with 30 features, 16 of them relevant; a test part.",
        reference=_DOOLY,
        file="LJ-16.30.2_regression",
    ),
    DatasetInfo(
        name="lj-80.166.1",
        n_bags=92,
        n_instances=359,
        n_features=166,
        n_classes=0,
        sha256="e01380fb98cecc592cb80daa2dd603663b50dcfff508cd303e097acb01a5208e",
        test_sha256="a78e5ed551a80c5a7674f43ea5205f8a8da27d25569c30d2c1df285d79623669",
        title="Artificial molecules with real-valued binding energies; a test part.",
        reference=_DOOLY,
        file="LJ-80.166.1_regression",
    ),
    _news(
        "alt.atheism",
        5443,
        "db726b1e8a6ae20e9a76d8c67d3e8753d468be38b7a09229a758c63d390dcc69",
    ),
    _news(
        "comp.graphics",
        3094,
        "3503a907407199186ae57b721e5c793b19a20a1a622e42ca7d5f38515c38e274",
    ),
    _news(
        "misc.forsale",
        5306,
        "8f8db6d9097971268d63716db2a6085a3d4ac3a2f8ea65d0d8919e14bee2bd0a",
    ),
    _news(
        "rec.autos",
        3458,
        "4c34cf01219bc0feadec9de4e7644277734f263b09f4f7e8519583766430d7a8",
    ),
    _news(
        "sci.crypt",
        4284,
        "3d98118e2af24dff81ae22c1fa72b2c27bd6cf2c3146629870709abc1d1969fc",
    ),
    _news(
        "sci.med",
        3045,
        "930b40b2c2db3810b4be5ad9f6f9839d879d9386f64d3c6617f2fb61f2f4fe03",
    ),
    _news(
        "talk.politics.guns",
        3558,
        "350df0537e23c9222f95c5d1e63a46fe7f8de4ffea8f48f5b973c14cc0f8ef69",
    ),
)

REGISTRY: dict[str, DatasetInfo] = {info.name: info for info in _SETS}
