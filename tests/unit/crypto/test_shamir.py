from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.crypto.shamir import PRIME, SHARE_BYTES, BadShareError, combine, share_digest, split
from securefl.base.entropy import InsecureSeededEntropy, OsEntropy
from securefl.base.errors import UsageError
from tests.tiers import examples

SECRET = st.binary(min_size=32, max_size=32)
TOP = b"\xff" * 32


class RecordingEntropy:
    """Passes draws on and keeps them."""

    insecure = True

    def __init__(self) -> None:
        self.drawn: list[bytes] = []

    def child(self, *labels: str | int) -> RecordingEntropy:
        return self

    def draw(self, size: int) -> bytes:
        self.drawn.append(OsEntropy().draw(size))
        return self.drawn[-1]


def numbered(shares: tuple[bytes, ...]) -> dict[int, bytes]:
    return dict(enumerate(shares, start=1))


def value_at(points: dict[int, int], x: int) -> int:
    """Lagrange interpolation, written out: an independent second way."""
    total = 0
    for own, value in points.items():
        term = value
        for other in points:
            if other != own:
                term = term * (x - other) * pow(own - other, -1, PRIME) % PRIME
        total += term
    return total % PRIME


def test_the_modulus_is_prime() -> None:
    # Miller and Rabin with 64 fixed, arbitrary bases: a composite passes with probability below 4^-64.
    odd, twos = PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for number in range(64):
        base = int.from_bytes(InsecureSeededEntropy(number).draw(32), "big") % (PRIME - 3) + 2
        powers = [pow(base, odd << step, PRIME) for step in range(twos)]
        assert powers[0] == 1 or PRIME - 1 in powers


def test_no_smaller_prime_holds_every_secret() -> None:
    # Base 3: the Fermat number 2^256 + 1 fools base 2.
    assert PRIME > 2**256
    assert all(pow(3, 2**256 + k - 1, 2**256 + k) != 1 for k in range(1, 297, 2))


@given(SECRET, st.integers(1, 6), st.integers(0, 3))
@settings(max_examples=examples(60))
def test_any_threshold_of_the_shares_gives_the_secret(secret: bytes, threshold: int, spare: int) -> None:
    shares = numbered(split(secret, threshold, threshold + spare, OsEntropy()))
    assert all(len(share) == SHARE_BYTES for share in shares.values())
    for chosen in combinations(shares, threshold):
        assert combine({x: shares[x] for x in reversed(chosen)}, threshold) == secret


@pytest.mark.parametrize("secret", [bytes(32), TOP, b"\x80" + bytes(31)])
@pytest.mark.parametrize(("threshold", "count"), [(1, 1), (1, 4), (2, 3), (67, 100), (100, 100)])
def test_end_values_and_sizes(secret: bytes, threshold: int, count: int) -> None:
    shares = numbered(split(secret, threshold, count, OsEntropy()))
    last = {x: shares[x] for x in range(count - threshold + 1, count + 1)}
    assert combine(shares, threshold) == secret
    assert combine(last, threshold) == secret


@given(SECRET, SECRET, st.integers(2, 6))
@settings(max_examples=examples(40))
def test_one_share_fewer_fits_every_secret(secret: bytes, other: bytes, threshold: int) -> None:
    shares = split(secret, threshold, threshold + 1, OsEntropy())
    known = {x: shares[x - 1] for x in range(1, threshold)}
    points = {x: int.from_bytes(share, "big") for x, share in known.items()}
    points[0] = int.from_bytes(other, "big")
    missing = value_at(points, threshold).to_bytes(SHARE_BYTES, "big")
    assert combine({**known, threshold: missing}, threshold) == other


def test_one_share_fewer_does_not_give_the_secret() -> None:
    for threshold in range(2, 8):
        shares = numbered(split(b"s" * 32, threshold, threshold, OsEntropy()))
        try:
            assert combine(shares, threshold - 1) != b"s" * 32
        except BadShareError:
            pytest.fail("an opening above 2^256 has probability 2^-247 here")


def test_shares_are_the_polynomial_of_the_drawn_coefficients() -> None:
    entropy = RecordingEntropy()
    shares = split(TOP, 4, 7, entropy)
    drawn = b"".join(entropy.drawn)
    assert len(drawn) == 48 * 3
    # Highest power first, as the shares are computed; any fixed order would do.
    high, middle, low = (int.from_bytes(drawn[at : at + 48], "big") for at in (0, 48, 96))
    for x, share in enumerate(shares, start=1):
        expected = (int.from_bytes(TOP, "big") + low * x + middle * x**2 + high * x**3) % PRIME
        assert int.from_bytes(share, "big") == expected


def test_polynomials_of_high_degree_are_evaluated_without_loss() -> None:
    entropy = RecordingEntropy()
    shares = split(TOP, 70, 80, entropy)
    drawn = b"".join(entropy.drawn)
    coefficients = [int.from_bytes(drawn[at : at + 48], "big") for at in range(0, len(drawn), 48)]
    for x in (1, 2, 79, 80):
        powers = (c * pow(x, 69 - i, PRIME) for i, c in enumerate(coefficients))
        expected = (int.from_bytes(TOP, "big") + sum(powers)) % PRIME
        assert int.from_bytes(shares[x - 1], "big") == expected


def test_single_shares_of_one_secret_are_uniform() -> None:
    # 2^14 first shares at threshold 2 in 64 cells by their top bits: chi-square with 63 degrees of freedom,
    # |z| > 5 (Wilson and Hilferty) has probability 6e-7; the seed is fixed.
    entropy = InsecureSeededEntropy(5)
    counts = [0] * 64
    for _ in range(2**14):
        counts[int.from_bytes(split(bytes(32), 2, 2, entropy)[0], "big") * 64 // PRIME] += 1
    statistic = sum((count - 256) ** 2 for count in counts) / 256
    z = ((statistic / 63) ** (1 / 3) - (1 - 2 / (9 * 63))) / math.sqrt(2 / (9 * 63))
    assert abs(z) < 5


def test_exactly_the_smallest_numbers_are_used() -> None:
    shares = numbered(split(b"s" * 32, 3, 6, OsEntropy()))
    ignored = {**shares, 4: b"short", 5: TOP, 6: b""}
    assert combine(ignored, 3) == b"s" * 32
    with pytest.raises(BadShareError):
        combine({x: ignored[x] for x in (1, 2, 4)}, 3)


def test_a_wrong_share_gives_another_secret() -> None:
    shares = numbered(split(b"s" * 32, 3, 3, OsEntropy()))
    shares[2] = (int.from_bytes(shares[2], "big") ^ 1).to_bytes(SHARE_BYTES, "big")
    assert combine(shares, 3) != b"s" * 32


@pytest.mark.parametrize(
    "share", [b"", bytes(32), bytes(34), PRIME.to_bytes(33, "big"), b"\xff" * 33], ids=len
)
def test_what_is_no_field_element_is_refused(share: bytes) -> None:
    with pytest.raises(BadShareError):
        combine({1: share}, 1)


@pytest.mark.parametrize("value", [2**256, PRIME - 1])
def test_a_result_that_is_no_secret_is_refused(value: int) -> None:
    with pytest.raises(BadShareError):
        combine({9: value.to_bytes(33, "big")}, 1)


def test_wrong_numbers_are_our_own_mistake() -> None:
    share = bytes(33)
    for shares, threshold in (
        ({}, 1),
        ({1: share}, 2),
        ({1: share}, 0),
        ({0: share}, 1),
        ({2**16: share}, 1),
    ):
        with pytest.raises(UsageError):
            combine(shares, threshold)
    for size, threshold, count in ((31, 1, 1), (33, 1, 1), (32, 0, 1), (32, 2, 1), (32, 1, 2**16)):
        with pytest.raises(UsageError):
            split(bytes(size), threshold, count, OsEntropy())


def test_errors_do_not_quote_shares() -> None:
    share = b"\xff" + OsEntropy().draw(32)
    with pytest.raises(BadShareError) as caught:
        combine({1: share}, 1)
    assert share.hex()[2:10] not in str(caught.value)
    assert str(int.from_bytes(share, "big")) not in str(caught.value)


def test_share_digests_bind_share_and_context() -> None:
    digests = {
        share_digest(bytes(33), b"a"),
        share_digest(bytes(33), b"b"),
        share_digest(bytes(32) + b"a", b"a"),
    }
    assert len(digests) == 3
    assert all(len(digest) == 32 for digest in digests)
