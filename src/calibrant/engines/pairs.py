"""What stands for float64 on devices that have none (MPS, some of XPU): pairs of float32.

A pair is the sum of two float32, 48 bits in all; its operations are the error-free ones of Dekker
and Knuth, and leave 1e-13. Sums are made of whole numbers: terms are scaled by a power of two, so
that their order does not matter and little more than the pairs themselves is lost. Probabilities
made on such a device, from logits or by a recalibrator, are counted by the bits that they have as
float64, kept as int64, which have the same order; one below 2^-126 is 0.
"""
# ruff: noqa: D102 (methods of a pair are those of a tensor)

from __future__ import annotations

import math
from collections.abc import Callable
from operator import attrgetter, methodcaller
from typing import Any

import numpy as np

from calibrant._lazy import torch
from calibrant._types import AnyArray, FloatArray

ONE, BEYOND = 1023 << 52, 2047 << 52
"""The bits of 1 and of infinity as float64."""
SPLIT = 4097.0
"""2^12 + 1, which cuts the 24 bits of a float32 into halves whose products are exact."""
LN2, LN2_REST = 0.693359375, -2.12194440054690583e-4
"""ln 2 in two parts; small whole numbers times the first are float32."""
HALVINGS = 4
"""Of arguments of exp: below ln 2 / 32 float32 is enough for its series from r^4 / 24 on."""


MOVES = (
    *("clone", "contiguous", "detach", "expand", "flatten"),
    *("gather", "reshape", "squeeze", "t", "view"),
)
"""Methods of tensors that move numbers and compute none."""
ASKS = (
    *("device", "dtype", "is_cuda", "isfinite", "isnan"),
    *("long", "ndim", "new_zeros", "shape", "to"),
)
"""Attributes and methods that the first half of a pair answers, to its rounding."""


def _moving(name: str) -> Any:
    return lambda pair, *args, **kwargs: pair.both(methodcaller(name, *args, **kwargs))


def _of_high(name: str) -> Any:
    return property(attrgetter(f"high.{name}"))


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: Any, b: Any) -> tuple[Any, Any]:
    product = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def _halves(a: Any) -> tuple[Any, Any]:
    high = a * SPLIT
    high = high - (high - a)
    return high, a - high


class Pair:
    """A tensor of numbers, each the sum of two float32, with the methods of `torch.Tensor`.

    They are those that this package asks of a tensor of float64.
    """

    __array_ufunc__ = None

    def __init__(self, high: Any, low: Any) -> None:
        self.high, self.low = high, low

    @classmethod
    def of(cls, values: Any) -> Pair:
        """Return a tensor of any type as pairs."""
        if values.dtype in (torch.int64, torch.int32):
            high = values.float()
            return cls(*_two_sum(high, (values - high.long()).float()))
        high = values.float()
        return cls(high, torch.zeros_like(high))

    @classmethod
    def summed(cls, high: Any, low: Any) -> Pair:
        """Return pairs in order: `low` below the last place of `high`; infinite ones have none."""
        low = torch.where(high.isfinite(), low, 0.0)
        total = high + low
        return cls(total, torch.where(total.isfinite(), low - (total - high), 0.0))

    def _as_pair(self, other: Any) -> Pair:
        if isinstance(other, Pair):
            return other
        if isinstance(other, int | float):
            high = float(np.float32(other))
            low = float(other) - high if math.isfinite(high) else 0.0
            return Pair(self.high.new_full((), high), self.high.new_full((), low))
        return Pair.of(other)

    def both(self, work: Callable[[Any], Any]) -> Pair:
        """Return what `work`, which only moves numbers, makes of both halves."""
        return Pair(work(self.high), work(self.low))

    def __len__(self) -> int:
        return len(self.high)

    def __getitem__(self, key: Any) -> Pair:
        return self.both(lambda x: x[key])

    clone, contiguous, detach, expand, flatten = map(_moving, MOVES[:5])
    gather, reshape, squeeze, t, view = map(_moving, MOVES[5:])
    device, dtype, is_cuda, isfinite, isnan = map(_of_high, ASKS[:5])
    long, ndim, new_zeros, shape, to = map(_of_high, ASKS[5:])

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Let functions of torch that a formula is made of take pairs."""
        name, kwargs = func.__name__, kwargs or {}
        if name in ("cat", "stack"):
            dim = kwargs.get("dim", args[1] if len(args) > 1 else 0)
            return cls(func([x.high for x in args[0]], dim), func([x.low for x in args[0]], dim))
        if name == "where":
            known = args[1] if isinstance(args[1], Pair) else args[2]
            x, y = (known._as_pair(x) for x in args[1:])
            return cls(func(args[0], x.high, y.high), func(args[0], x.low, y.low))
        return getattr(args[0], name)(*args[1:], **kwargs)

    def __add__(self, other: Any) -> Pair:
        other = self._as_pair(other)
        high, low = _two_sum(self.high, other.high)
        lower, lowest = _two_sum(self.low, other.low)
        total = Pair.summed(high, low + lower)
        return Pair.summed(total.high, total.low + lowest)

    def __neg__(self) -> Pair:
        return Pair(-self.high, -self.low)

    def __sub__(self, other: Any) -> Pair:
        return self + -self._as_pair(other)

    def __rsub__(self, other: Any) -> Pair:
        return self._as_pair(other) - self

    def __mul__(self, other: Any) -> Pair:
        other = self._as_pair(other)
        product, low = _two_product(self.high, other.high)
        return Pair.summed(product, low + (self.high * other.low + self.low * other.high))

    def __truediv__(self, other: Any) -> Pair:
        other = self._as_pair(other)
        first = self.high / other.high
        rest = self - other * Pair.of(first)
        low = rest.high / other.high
        return Pair.summed(first, torch.where(low.isfinite(), low, 0.0))

    def __rtruediv__(self, other: Any) -> Pair:
        return self._as_pair(other) / self

    def __pow__(self, power: int) -> Pair:
        return self * self if power == 2 else self * self ** (power - 1)

    def __matmul__(self, other: Pair) -> Pair:
        total = self[:, :1] * other[:1]
        for k in range(1, len(other)):
            total = total + self[:, k : k + 1] * other[k : k + 1]
        return total

    __radd__, __rmul__ = __add__, __mul__

    def __gt__(self, other: Any) -> Any:
        other = self._as_pair(other)
        same = self.high == other.high
        return (self.high > other.high) | (same & (self.low > other.low))

    def __lt__(self, other: Any) -> Any:
        return self._as_pair(other) > self

    def __ge__(self, other: Any) -> Any:
        return (self > other) | (self == other)

    def __le__(self, other: Any) -> Any:
        return (self < other) | (self == other)

    def __eq__(self, other: Any) -> Any:
        other = self._as_pair(other)
        return (self.high == other.high) & (self.low == other.low)

    __hash__ = None  # type: ignore[assignment]

    def bits(self) -> Any:
        """Return the bits that probabilities have as float64; 0 below 2^-126."""
        _, inverse = _power(self.high)
        number = self.both(lambda x: x * inverse)._rounded(52)
        below = number < 1 << 52  # a low half below 0 borrows from the exponent before
        exponent = exponents(self.high) + torch.where(below, 1021, 1022)
        number = torch.where(below, 2 * number, number) + (exponent.long() << 52)
        return torch.where(self.high < 2.0**-126, 0, number).clamp(max=ONE)

    def exp(self) -> Pair:
        """Return exponentials: a short series for what is left of multiples of ln 2."""
        x = self.clamp(-110.0, 89.0)  # below and above, 0 and infinity
        steps = (x.high / LN2).round()
        rest = (x - steps * LN2 - Pair.of(steps) * LN2_REST).both(lambda x: x * 0.5**HALVINGS)
        r = rest.high
        total = Pair.of(1 / 24 + r * (1 / 120 + r * (1 / 720 + r / 5040)))
        for factor in (1 / 6, 1 / 2, 1.0, 1.0):
            total = total * rest + factor
        for _ in range(HALVINGS):
            total = total * total
        half = (steps / 2).floor()
        powers = _two_to(half.int()), _two_to((steps - half).int())
        scaled = total.both(lambda x: x * powers[0] * powers[1])
        return Pair.summed(scaled.high, scaled.low)

    exp_ = exp

    def log(self) -> Pair:
        """Return logarithms: one step of Newton's method from that of float32."""
        first = self.high.log()
        low: Pair = torch.where(first.isfinite(), self * (-Pair.of(first)).exp() - 1.0, 0.0)
        return Pair.of(first) + low

    def log1p(self) -> Pair:
        total = self + 1.0
        lost: Pair = torch.where(total == 0.0, 0.0, ((total - 1.0) - self) / total)
        return total.log() - lost

    def clamp(self, min: float | None = None, max: float | None = None) -> Pair:  # noqa: A002
        x: Pair = self if min is None else torch.where(self < min, min, self)
        return x if max is None else torch.where(x > max, max, x)

    def amax(self, dim: int, keepdim: bool = False) -> Pair:
        high = self.high.amax(dim, keepdim=True)
        low = torch.where(self.high == high, self.low, -torch.inf).amax(dim, keepdim=True)
        largest = Pair.summed(high, low)
        return largest if keepdim else largest.both(lambda x: x.squeeze(dim))

    def argmax(self, dim: int) -> Any:
        rank = torch.arange(self.shape[dim], 0, -1, device=self.device)
        return ((self == self.amax(dim, keepdim=True)) * rank).argmax(dim)

    def sum(self, dim: int | None = None, keepdim: bool = False) -> Pair:
        if dim is None:
            return self.both(lambda x: x.reshape(-1)).sum(0)
        unit, inverse = _power(self.high.abs().amax(dim, keepdim=True))
        bits = 62 - self.shape[dim].bit_length()
        total = self.both(lambda x: x * inverse)._rounded(bits).sum(dim, keepdim=True)
        summed, plain = _of_units(total, bits, unit), self.high.sum(dim, keepdim=True)
        # terms may be infinite or missing, which no unit can round
        summed.high = torch.where(plain.isfinite(), summed.high, plain)
        return summed if keepdim else summed.both(lambda x: x.squeeze(dim))

    def mean(self, dim: int | None = None) -> Pair:
        n: int = self.high.numel() if dim is None else self.shape[dim]
        return self.sum(dim) / n

    def softmax(self, dim: int) -> Pair:
        share = (self - self.amax(dim, keepdim=True)).exp()
        return share / share.sum(dim, keepdim=True)

    def log_softmax(self, dim: int) -> Pair:
        z = self - self.amax(dim, keepdim=True)
        return z - z.exp().sum(dim, keepdim=True).log()

    def _rounded(self, bits: int) -> Any:
        """Return numbers of at most 2 as whole multiples of 2^-bits."""
        high, low = ((half * 2.0**bits).round().long() for half in (self.high, self.low))
        return high + low


def sums_at(place: Any, n_places: int, term: Any) -> Any:
    """Return the sums of the numbers at each place, as float64 or pairs."""
    if not isinstance(term, Pair):
        return term.new_zeros(n_places).scatter_add_(0, place, term)
    largest = term.high.new_zeros(n_places).scatter_reduce_(0, place, term.high.abs(), "amax")
    unit, inverse = _power(largest)
    inverse, bits = inverse[place], 62 - len(term).bit_length()
    whole = term.both(lambda x: x * inverse)._rounded(bits)
    # `index_add_` of int64 is right on MPS or refused; `scatter_add_` has been neither.
    return _of_units(whole.new_zeros(n_places).index_add_(0, place, whole), bits, unit)


def _of_units(total: Any, bits: int, unit: Any) -> Pair:
    return Pair.of(total).both(lambda x: x * 0.5**bits * unit)


def exponents(x: Any) -> Any:
    """Return the exponents of float32 numbers above 0, from their bits."""
    return ((x.contiguous().view(torch.int32) >> 23) & 0xFF) - 127


def _power(x: Any) -> tuple[Any, Any]:
    """Return the powers of two at or below numbers, and their inverses: exact factors."""
    exponent = exponents(x).clamp(-126, 126)
    return _two_to(exponent), _two_to(-exponent)


def _two_to(exponent: Any) -> Any:
    """Return powers of two by their bits: those of a device's exp2 may be rounded."""
    return ((exponent + 127) << 23).view(torch.float32)


def has_float64(device: Any) -> bool:
    """Return whether tensors on a device can be float64."""
    if device.type == "xpu":
        return bool(torch.xpu.get_device_properties(device).has_fp64)
    return bool(device.type != "mps")


def wide(values: Any) -> Any:
    """Return numbers in float64, or as pairs where the device has none."""
    if isinstance(values, Pair):
        return values
    return values.double() if has_float64(values.device) else Pair.of(values)


def wide_array(array: AnyArray, device: Any) -> Any:
    """Move numbers of the host to a device, in float64 or as pairs."""
    array = np.ascontiguousarray(array, np.float64)
    if has_float64(device):
        return torch.from_numpy(array.copy()).to(device)
    high = array.astype(np.float32)
    with np.errstate(invalid="ignore"):  # infinity has no rest
        low = np.where(np.isfinite(high), array - high, 0.0).astype(np.float32)
    return Pair(*(torch.from_numpy(half).to(device) for half in (high, low)))


def on_host(values: Any) -> FloatArray:
    """Return numbers of any form, bits of probabilities too, as float64 on the host."""
    if isinstance(values, Pair):
        return np.asarray(on_host(values.high) + on_host(values.low))
    host = values.detach().cpu()
    array: FloatArray = host.numpy().view(np.float64) if are_bits(values) else host.double().numpy()
    return array


def probabilities(p: Any) -> Any:
    """Return probabilities of any form in float64, or as pairs."""
    if not are_bits(p):
        return wide(p)
    power = _two_to(((p >> 52) - 1023).clamp(min=-126).int())
    return Pair.of(significand(p)).both(lambda x: x * 0.5**52 * power)


def significand(bits: Any) -> Any:
    """Return the 53 bits of probabilities that do not tell their exponent."""
    return torch.where(bits > 0, (bits & ((1 << 52) - 1)) | (1 << 52), 0)


def are_bits(predictions: Any) -> bool:
    """Return whether these are bits of probabilities: int64 on a device without float64."""
    return not has_float64(predictions.device) and "int64" in str(predictions.dtype)


def float64_bits(x: Any) -> Any:
    """Return the bits of numbers as float64, in int64."""
    if has_float64(x.device):
        return (x.double() + 0.0).view(torch.int64)
    x = x.float().contiguous()
    is_small = x.abs() < 2.0**-126  # whose exponent has no bits of its own
    bits = torch.where(is_small, x * 2.0**64, x).view(torch.int32).long()
    exponent = ((bits >> 23) & 0xFF) + torch.where(is_small, 832, 896)
    number = (exponent << 52) + ((bits & 0x7FFFFF) << 29) + ((bits < 0).long() << 63)
    return torch.where(x == 0, 0, number)
