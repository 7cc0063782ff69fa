"""Diagrams of estimators link to their pages."""

import pytest
from sklearn.utils import estimator_html_repr

import bagwise
from bagwise.testing import all_estimators

ESTIMATORS = all_estimators()


@pytest.mark.parametrize(("name", "cls"), ESTIMATORS)
def test_link_names_the_class_on_the_site_in_force(name, cls, monkeypatch):
    monkeypatch.delenv("BAGWISE_DOCS", raising=False)
    estimator = cls.__new__(cls)
    assert estimator._get_doc_link() == ""
    with bagwise.config_context(site="https://docs.example/{0.2}/"):
        expected = f"https://docs.example/{{0.2}}/estimators.html#{name}"
        assert estimator._get_doc_link() == expected
    monkeypatch.setenv("BAGWISE_DOCS", "file:///site")
    assert estimator._get_doc_link() == f"file:///site/estimators.html#{name}"


def test_diagram_contains_the_link():
    with bagwise.config_context(site="https://docs.example"):
        page = estimator_html_repr(bagwise.BagClassifier())
    assert 'href="https://docs.example/estimators.html#BagClassifier"' in page
    assert "estimators.html" not in estimator_html_repr(bagwise.BagClassifier())


def test_site_must_be_a_string():
    with pytest.raises(TypeError, match="site must be a string"):
        with bagwise.config_context(site=3):
            pass
