"""A device that is not there: tensors that behave as on MPS, which has no float64.

An instrument of tests. A tensor "on" it is a subclass whose numbers are on the host; every call of
torch on one is looked at. What MPS refuses is refused: a float64 (with MPS' own words), tensors of
two devices in one call, reading by NumPy, and the functions of int64 that MPS computes wrongly or
not at all in versions of PyTorch that are in use. What comes to the host is counted.
"""

from __future__ import annotations

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("mps", 0)
WORDS = "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64."
READS = {"cpu", "item", "tolist", "__bool__", "__float__", "__int__", "__index__"}
WRONG_OF_INT64 = {"scatter_add_", "scatter_add", "scatter_reduce_", "scatter_reduce", "bincount"}
NOT_THERE = {"aminmax", "frexp"}


class OnDevice(torch.Tensor):
    """A tensor on the device; its numbers are really on the host."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return called(func, args, kwargs or {})


def is_there(x):
    return isinstance(x, OnDevice)


def bare(x):
    return x.as_subclass(torch.Tensor) if is_there(x) else x


def moved(x):
    """Move a tensor to the device; refuse a float64."""
    if not isinstance(x, torch.Tensor):
        return x
    if x.dtype in (torch.float64, torch.complex128):
        raise TypeError(WORDS)
    return x.as_subclass(OnDevice)


def is_device(x):
    return isinstance(x, str | torch.device) and str(x).startswith("mps")


class FakeDevice(TorchFunctionMode):
    """Makes the device exist while it is entered, and counts the bytes that are read from it."""

    now = None

    def __init__(self):
        super().__init__()
        self.read = 0

    def __enter__(self):
        FakeDevice.now = self
        return super().__enter__()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return called(func, args, kwargs or {})

    def move(self, array, dtype=None):
        """Return numbers on the device, rounded on the host to a type that it has."""
        return moved(torch.as_tensor(array).to(dtype) if dtype else torch.as_tensor(array))


def called(func, args, kwargs):
    """Do on the host what would be done on the device."""
    name = getattr(func, "__name__", "")
    given = tree_leaves((args, kwargs))
    own = [x for x in given if hasattr(x, "__torch_function__") and not torch.is_tensor(x)]
    if own:  # not a tensor, but it knows what to do
        with FakeDevice.now:
            return own[0].__torch_function__(func, (), args, kwargs)
    with torch._C.DisableTorchFunctionSubclass():
        here = [x for x in given if is_there(x)]
        to_device = any(map(is_device, given))
        if name == "__get__" and here:
            return getter(func, args[0])
        if name == "_parse_to" or not (here or to_device):
            return func(*args, **kwargs)
        if name == "numpy" or name == "__array__":
            raise TypeError("can't convert mps:0 device type tensor to numpy.")
        is_move = name in ("to", "cpu") and here
        if name in READS or (is_move and any(str(x) == "cpu" for x in given)):
            FakeDevice.now.read += here[0].numel() * here[0].element_size()
            return func(*tree_map(bare, args), **tree_map(bare, kwargs))
        if here and not is_move:
            check(name, given, here, kwargs)
        on_cpu = tree_map(
            lambda x: torch.device("cpu") if is_device(x) else bare(x), (args, kwargs)
        )
        found = func(*on_cpu[0], **on_cpu[1])
        if name.endswith("_") and not name.endswith("__") and here and is_there(args[0]):
            moved(found)
            return args[0]
        return tree_map(moved, found)


def getter(func, x):
    """Return an attribute of a tensor on the device."""
    found = func(bare(x))
    if isinstance(found, torch.device):
        return DEVICE
    return moved(found) if isinstance(found, torch.Tensor) else found


def check(name, given, here, kwargs):
    """Refuse what MPS refuses, or gets wrong."""
    others = [x for x in given if isinstance(x, torch.Tensor) and not is_there(x) and x.ndim]
    if others and name not in ("__setitem__", "copy_"):
        raise RuntimeError(f"{name}: Expected all tensors to be on the same device, mps:0 and cpu")
    if name in NOT_THERE:
        raise NotImplementedError(f"The operator 'aten::{name}' is not implemented for MPS.")
    if name in WRONG_OF_INT64 and here[0].dtype == torch.int64:
        raise RuntimeError(f"{name} of int64 is not to be relied on")
    if kwargs.get("stable"):
        raise RuntimeError(f"{name} is not to be relied on to be stable")
