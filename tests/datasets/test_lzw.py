"""The .Z reader against an encoder written from the format, and against gzip."""

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bagwise.datasets._download import decompress

CLEAR = 256


def compress(raw, max_bits=16, clear_every=None):
    """Encode as Unix compress does, in groups of eight codes."""
    out = bytearray(b"\x1f\x9d") + bytes([max_bits | 0x80])
    group, width, free = [], 9, 257
    codes = {bytes([i]): i for i in range(256)}
    emitted = 0

    def flush():
        value = sum(code << (k * width) for k, code in enumerate(group))
        out.extend(value.to_bytes(width, "little"))
        group.clear()

    def emit(code):
        group.append(code)
        if len(group) == 8:
            flush()

    def end_group():
        if group:
            flush()

    word, first = b"", True
    for k in range(len(raw)):
        longer = word + raw[k : k + 1]
        if longer in codes:
            word = longer
            continue
        emit(codes[word])
        emitted += 1
        if not first and free < 1 << max_bits:
            free += 1
        first = False
        if len(codes) + 1 < 1 << max_bits:
            codes[longer] = len(codes) + 1
        if free > (1 << width) - 1 and width < max_bits:
            end_group()
            width += 1
        word = raw[k : k + 1]
        if clear_every and emitted % clear_every == 0:
            emit(CLEAR)
            end_group()
            width, free, first = 9, 257, True
            codes = {bytes([i]): i for i in range(256)}
    if word:
        group.append(codes[word])
        size = (len(group) * width + 7) // 8
        value = sum(code << (k * width) for k, code in enumerate(group))
        out.extend(value.to_bytes(size, "little"))
    return bytes(out)


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=3000),
        st.integers(0, 6000).map(lambda n: b"abracadabra, " * (n // 13)),
    ),
    st.integers(9, 16),
    st.sampled_from([None, 7, 100]),
)
def test_round_trip(raw, max_bits, clear_every):
    assert decompress(compress(raw, max_bits, clear_every)) == raw


LONG = b"".join(b"%d,%d.;" % (i * i % 997, -i) for i in range(30000))


@pytest.mark.parametrize("max_bits", [9, 12, 16])
def test_widths_change_in_long_files(max_bits):
    assert decompress(compress(LONG, max_bits)) == LONG


@pytest.mark.skipif(shutil.which("gzip") is None, reason="gzip is not installed")
@pytest.mark.parametrize("clear_every", [None, 5000])
def test_encoder_of_this_test_agrees_with_gzip(clear_every):
    encoded = compress(LONG, 16, clear_every)
    result = subprocess.run(
        ["gzip", "-dc"], input=encoded, capture_output=True, check=True
    )
    assert result.stdout == LONG
    assert decompress(encoded) == LONG


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "not a Unix compress"),
        (b"PK\x03\x04", "not a Unix compress"),
        (b"\x1f\x9d\x82ab", "codes of 2 bits"),
        (b"\x1f\x9d\x90\xff\xff\xff", "damaged"),
    ],
)
def test_wrong_files(raw, message):
    with pytest.raises(ValueError, match=message):
        decompress(raw)


def test_bombs_are_refused():
    with pytest.raises(ValueError, match="more than 1000 bytes"):
        decompress(compress(b"a" * 5000), limit=1000)
