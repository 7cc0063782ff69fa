import pytest

from bagwise._sizes import memory_budget, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [("4GB", 4 * 10**9), ("1.5 mb", 1_500_000), ("700", 700), ("2KiB", 2048)],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["much", "1.2.3GB", "4XB", "-3MB", "3iB", ""])
def test_what_is_no_size(text):
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


def test_the_budget_of_kernels_is_read_alike(monkeypatch):
    monkeypatch.setenv("BAGWISE_MEMORY", "1.5 GB")
    assert memory_budget() == parse_size("1.5 GB")
    monkeypatch.setenv("BAGWISE_MEMORY", "plenty")
    with pytest.raises(ValueError, match="BAGWISE_MEMORY: 'plenty' is not a size"):
        memory_budget()
