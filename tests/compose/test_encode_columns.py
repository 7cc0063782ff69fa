"""Categories, dates and texts of instances, encoded inside the training folds."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import bagwise
from bagwise import Bags, compare, from_frame, to_frame
from bagwise.comparison import CrossValidation
from bagwise.compose import EncodeColumns, OnInstances, SimpleMI, SimpleMIRegressor
from bagwise.ensemble import BagClassifier, BagRegressor
from bagwise.inspection import bag_permutation_importance, feature_contributions
from bagwise.io import _schema, load, save
from bagwise.svm import MISVM

CITIES = np.array(["Oslo", "Paris", "Rome"])


def transactions(n_bags=60, size=8, seed=0):
    """Return a table; bags of the positive class buy in one city at night."""
    rng = np.random.default_rng(seed)
    n = n_bags * size
    bag = np.repeat(np.arange(n_bags), size)
    label = bag % 2
    hour = rng.integers(8, 20, n)
    city = rng.choice(CITIES, n)
    odd = (label == 1) & (np.arange(n) % size == 0)
    hour[odd], city[odd] = 3, "Rome"
    day = pd.to_datetime("2026-01-05") + pd.to_timedelta(rng.integers(0, 200, n), "D")
    return pd.DataFrame(
        {
            "customer": [f"c{i}" for i in bag],
            "fraud": label,
            "amount": rng.gamma(2.0, 10.0, n),
            "city": city,
            "time": day + pd.to_timedelta(hour, "h"),
            "online": rng.random(n) < 0.3,
            "shop": [f"shop number {i}" for i in rng.integers(0, 90, n)],
        }
    )


def small():
    """Return a stack that is fitted quickly."""
    return BagClassifier(members=[("mean", SimpleMI())], random_state=0)


@pytest.fixture
def table():
    return transactions()


def read(table, **options):
    options = {"encode": "auto", **options}
    return from_frame(table, bag="customer", label="fraud", **options)


def by_hand(table, train):
    """Encode the rows of a frame with scikit-learn and pandas alone."""
    rows = table[train]
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    one_hot.fit(rows[["city"]])
    hashed = HashingVectorizer(analyzer="char_wb", ngram_range=(2, 4), n_features=4096)
    svd = TruncatedSVD(30, random_state=0).fit(hashed.transform(rows["shop"]))
    times = table["time"]
    return np.column_stack(
        [
            table["amount"],
            one_hot.transform(table[["city"]]),
            (times - times[train].min()).dt.total_seconds() / 86400,
            times.dt.month,
            times.dt.day,
            times.dt.weekday,
            times.dt.hour,
            table["online"],
            svd.transform(hashed.transform(table["shop"])),
        ]
    )


def test_equal_to_a_pipeline_by_hand(table):
    X, y = read(table)
    train = np.arange(40)
    rows = np.repeat(np.arange(60) < 40, 8)
    found = EncodeColumns().fit(X[train]).transform(X)
    expected = by_hand(table, rows)
    np.testing.assert_allclose(found.data, expected, rtol=0, atol=1e-12)
    assert len(set(found.feature_names)) == expected.shape[1]
    means = expected.reshape(60, 8, -1).mean(axis=1)
    ridge = make_pipeline(StandardScaler(), RidgeClassifier())
    by_rows = clone(ridge).fit(means[train], y[train]).decision_function(means)
    ours = make_pipeline(EncodeColumns(), SimpleMI(ridge, pooling="mean"))
    ours.fit(X[train], y[train])
    np.testing.assert_allclose(ours.decision_function(X), by_rows, rtol=0, atol=1e-12)


def test_categories_that_training_has_not_seen_are_zero(table):
    X, y = read(table)
    other = transactions(seed=1)
    other.loc[3, "city"] = "Lima"
    Z = read(other)[0]
    found = EncodeColumns().fit(X).transform(Z)
    names = found.feature_names.tolist()
    place = [names.index(f"city_{city}") for city in CITIES]
    assert found.data[3, place].tolist() == [0, 0, 0]
    assert found.data[:, place].sum() == len(other) - 1
    model = small().fit(X, y)
    assert np.isfinite(model.predict_proba(Z)).all()


def test_missing_entries_are_a_category(table):
    table.loc[5, "city"] = None
    X, _ = read(table)
    found = EncodeColumns().fit_transform(X)
    assert found.data[5, found.feature_names.tolist().index("city_")] == 1.0


def test_codes_do_not_depend_on_the_other_rows(table):
    X, _ = read(table)
    one, two = read(table[:200])[0], read(table[200:])[0]
    joined = Bags.concatenate([one, two])
    assert (joined.decoded() == X.decoded()).all()
    encoder = EncodeColumns().fit(X)
    for part, rows in ((one, slice(0, 200)), (two, slice(200, None))):
        found = encoder.transform(part).data
        np.testing.assert_array_equal(found, encoder.transform(X).data[rows])


def test_tables_come_back(table):
    X, y = read(table)
    back = to_frame(X, y, bag="customer", label="fraud")
    for name in ("city", "shop", "time", "amount"):
        assert back[name].tolist() == table[name].tolist()


@pytest.mark.parametrize(
    "model", [small(), BagRegressor(members=[("mean", SimpleMIRegressor())])]
)
def test_stacks_take_them_and_are_saved(model, table, tmp_path):
    X, y = read(table)
    model.fit(X[:40], y[:40])
    save(model, tmp_path / "model.bagwise")
    again = load(tmp_path / "model.bagwise")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.feature_names_in_.tolist() == X.feature_names.tolist()


def test_pipelines_are_saved(table, tmp_path):
    X, y = read(table, text="shop")
    model = make_pipeline(EncodeColumns(), MISVM(kernel="linear")).fit(X, y)
    save(model, tmp_path / "model.bagwise")
    again = load(tmp_path / "model.bagwise")
    scores = again.decision_function(X)
    np.testing.assert_array_equal(scores, model.decision_function(X))


def test_words_without_columns_are_refused(table, tmp_path, monkeypatch):
    X, _ = read(table, text="shop")
    model = EncodeColumns(n_components=500).fit(X)
    words = model.encoders_["shop"].steps[0][1]
    words.vocabulary_ = {word: 10**6 for word in words.vocabulary_}
    with pytest.raises(ValueError, match="words of a vocabulary have no columns"):
        save(model, tmp_path / "model.bagwise")
    monkeypatch.setitem(
        _schema.CHECKS["sklearn"], "TfidfVectorizer", lambda value: None
    )
    save(model, tmp_path / "model.bagwise")
    monkeypatch.undo()
    with pytest.raises(ValueError, match="words of a vocabulary have no columns"):
        load(tmp_path / "model.bagwise")


def test_compare_encodes_inside_the_folds(table):
    X, y = read(table)
    result = compare(
        X,
        y,
        methods=["SimpleMI", "MI-SVM"],
        protocol=CrossValidation(5),
        grid="none",
        n_jobs=2,
        progress=False,
    )
    assert not result.failures
    fitted = result.fit_best("SimpleMI").model
    assert [name for name, _ in fitted.steps] == ["encode", "scale", "model"]
    scores = cross_val_score(make_pipeline(EncodeColumns(), SimpleMI()), X, y)
    assert len(scores) == 5


def test_inspection_takes_them(table):
    X, y = read(table)
    model = small().fit(X, y)
    falls = bag_permutation_importance(model, X, y, n_repeats=1, random_state=0)
    assert len(falls.importances_mean) == X.n_features
    parts = feature_contributions(model, X[:2], n_permutations=2, random_state=0)
    assert np.isfinite(parts.values).all()


def test_other_methods_say_what_to_do(table):
    X, y = read(table)
    with pytest.raises(TypeError, match="column 'city' holds categories .*Encode"):
        MISVM().fit(X, y)


def test_numbers_where_texts_were_are_refused(table):
    X, y = read(table)
    model = small().fit(X, y)
    table["city"] = 1.0
    with pytest.raises(ValueError, match="'city' held categories in training"):
        model.predict(read(table)[0])
    numbers = from_frame(table.drop(columns=["time", "shop"]), "customer", "fraud")
    plain = small().fit(*numbers)
    table["city"] = "Rome"
    with pytest.raises(TypeError, match="'city' holds categories"):
        plain.predict(read(table, drop=["time", "shop"])[0])


# --------------------------------------------------------------------------- reading


def test_what_may_be_a_mistake_is_not_encoded(table):
    table["receipt"] = [f"r-{i}" for i in range(len(table))]
    table["price"] = ["1.5"] * (len(table) - 1) + ["n/k"]
    with pytest.raises(ValueError, match="2 columns are not numeric") as caught:
        read(table)
    text = str(caught.value)
    assert "a different name in every row" in text
    assert "'n/k' in row 479" in text
    assert "encode=['receipt', 'price']" in text
    X, _ = read(table, drop=["receipt"], encode=["price", "city", "time", "shop"])
    kinds = {X.feature_names[j]: coding.kind for j, coding in X.codings.items()}
    assert kinds == dict.fromkeys(["price", "city", "shop"], "category") | {
        "time": "date"
    }


def test_durations_are_no_dates(table):
    table["stay"] = table["time"] - table["time"].min()
    with pytest.raises(ValueError, match=r"'stay' \(Duration"):
        read(table)


def test_numbers_can_be_named_as_categories(tmp_path):
    (tmp_path / "t.csv").write_text("b,y,zip\na,0,01234\na,0,02345\nb,1,01234\n")
    X, _ = bagwise.read_bags(tmp_path / "t.csv", bag="b", label="y", encode=["zip"])
    assert X.decoded()[:, 0].tolist() == ["01234", "02345", "01234"]


@pytest.mark.parametrize(
    "spelled",
    [
        ["2026-12-31", "2026-01-02", "2025-06-30"],
        ["31.12.2026", "02.01.2026", "30.06.2025"],
        ["12/31/2026", "01/02/2026", "06/30/2025"],
        ["31/12/2026", "02/01/2026", "30/06/2025"],
        ["2026-12-31T01:00:00+01:00", "2026-01-02", "2025-06-30 00:00"],
    ],
)
def test_dates(spelled, tmp_path):
    rows = "".join(f"b{i % 2},{i % 2},{date}\n" for i, date in enumerate(spelled))
    (tmp_path / "t.csv").write_text(f"b,y,day\n{rows}")
    X, _ = bagwise.read_bags(tmp_path / "t.csv", bag="b", label="y", encode="auto")
    order = np.argsort([0, 2, 1])
    found = X.decoded()[order, 0].astype("datetime64[s]")
    expected = np.array(["2026-12-31", "2026-01-02", "2025-06-30"], "datetime64[s]")
    assert (found == expected).all()


@pytest.mark.parametrize(
    ("dates", "problem"),
    [
        (["01/02/2026", "03/04/2026"], "'01/02/2026' is ambiguous"),
        (["2026-01-02", "2026-13-45"], "'2026-13-45' is not a date"),
    ],
)
def test_unclear_dates_are_named(dates, problem, tmp_path):
    rows = "".join(f"b{i},{i},{date}\n" for i, date in enumerate(dates))
    (tmp_path / "t.csv").write_text(f"b,y,day\n{rows}")
    with pytest.raises(ValueError, match=problem) as caught:
        bagwise.read_bags(tmp_path / "t.csv", bag="b", label="y", encode="auto")
    assert "column 'day'" in str(caught.value)
    assert "line" in str(caught.value)


# ----------------------------------------------------------------------------- texts

POSTS = [["the cat sat", "dogs bark"], ["a cat"], ["birds fly south", "the dogs sat"]]


def test_bags_of_texts():
    X = Bags.from_list(POSTS)
    assert X.decoded()[:, 0].tolist() == [text for bag in POSTS for text in bag]
    words = OnInstances(TfidfVectorizer()).fit(X[:2])
    expected = TfidfVectorizer().fit(POSTS[0] + POSTS[1]).transform(POSTS[2])
    assert abs(words.transform(X[2:]).data - expected).max() == 0
    assert abs(words.transform(POSTS[2:]).data - expected).max() == 0


def test_texts_of_a_table(tmp_path):
    rows = [(i, i % 2, text) for i, bag in enumerate(POSTS) for text in bag]
    table = pd.DataFrame(rows, columns=["thread", "topic", "post"])
    X, _ = from_frame(table, bag="thread", label="topic", text="post")
    found = OnInstances(TfidfVectorizer()).fit_transform(X)
    assert found.is_sparse
    assert found.n_instances == 5
    table["length"] = table["post"].str.len()
    Z, _ = from_frame(table, bag="thread", label="topic", text="post")
    with pytest.raises(ValueError, match="takes bags of texts, which have one column"):
        OnInstances(TfidfVectorizer()).fit(Z)


def test_bags_of_texts_and_numbers_are_refused():
    with pytest.raises(TypeError, match="bag 1 is not a list of texts"):
        Bags.from_list([["a"], np.zeros((2, 1))])
    with pytest.raises(TypeError, match="bag 0 is text"):
        Bags.from_list(["abc", "d"])
