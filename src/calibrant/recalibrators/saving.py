"""Saved recalibrators: readable, versioned JSON. Loading checks everything and runs no code."""

from __future__ import annotations

import json
import os
from copy import copy
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibrant._documents import check_header, header, read_json
from calibrant._types import FloatArray
from calibrant.bins import Bins, Distinct, EqualMass, EqualWidth, Hybrid
from calibrant.exceptions import InvalidArgumentError, InvalidDocumentError
from calibrant.groups import by_to_json, read_by
from calibrant.recalibrators import quantiles
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.fingerprint import Fingerprint, TableFingerprint
from calibrant.recalibrators.formulas import is_share
from calibrant.recalibrators.reading import fitted_names, keep_names
from calibrant.recalibrators.scores import FitResult
from calibrant.recalibrators.temperature import Identity

Fitted = TypeVar("Fitted", bound=Recalibrator)

FORMAT = "calibrant.recalibrator"
SCHEMA = 1
MAX_DEPTH = 8
"""Recalibrators within each other: no more than three make sense, and a hostile document could nest
without end."""
LARGEST_NUMBER = 1e150
"""Of what was learned, in size: no fit comes near, and a product with a larger one may overflow."""
LATER = {"smoothing": 0.0, "on": "log-odds"}
"""Parameters that came later, and the values that say what recalibrators without them did."""


@cache
def known() -> dict[str, type[Recalibrator]]:
    """Return calibrant's own recalibrators by name: what can be saved and loaded."""
    from calibrant import recalibrators

    public = {name: getattr(recalibrators, name) for name in recalibrators.__all__}
    return {
        name: value
        for name, value in public.items()
        if isinstance(value, type) and issubclass(value, Recalibrator) and value is not Recalibrator
    }


def parts_as_steps(wrapper: Fitted) -> Fitted:
    """Return the same answers with steps in place of scalers of your own, which can be saved.

    See `ScalingBinning.as_steps`. A recalibrator of your own that is no scaler stays what it is,
    and cannot be saved.
    """
    check_is_fitted(wrapper, "classes_")

    def steps_of(part: Any) -> Any:
        return part.as_steps() if hasattr(part, "as_steps") else part

    steps: Any = copy(wrapper)
    steps.recalibrator = _without_own_scaler(steps.recalibrator)
    for name, kind in steps._learned.items():
        part = getattr(wrapper, name)
        if kind == "recalibrator":
            setattr(steps, name, steps_of(part))
        elif kind == "recalibrators":
            setattr(steps, name, [steps_of(inner) for inner in part])
    return steps  # type: ignore[no-any-return]


def can_be_saved(recalibrator: Any) -> bool:
    """Tell whether a recalibrator is calibrant's own, and the scaler in it too."""
    scaler = getattr(recalibrator, "scaler", None)
    is_known = known().get(type(recalibrator).__name__) is type(recalibrator)
    return is_known and (scaler is None or can_be_saved(scaler))


def _without_own_scaler(recalibrator: Any) -> Any:
    """Return parameters without the user's own scaler, as `as_steps` leaves it out."""
    scaler = getattr(recalibrator, "scaler", None)
    if scaler is not None and not can_be_saved(scaler):
        recalibrator = copy(recalibrator)
        recalibrator.scaler = Identity(recalibrator.input)
    elif isinstance(getattr(recalibrator, "recalibrator", None), Recalibrator):
        recalibrator = copy(recalibrator)
        recalibrator.recalibrator = _without_own_scaler(recalibrator.recalibrator)
    return recalibrator


def to_json(recalibrator: Recalibrator) -> str:
    """Return a fitted recalibrator as JSON; every float survives the round trip exactly."""
    return json.dumps(to_dict(recalibrator), allow_nan=False, indent=1) + "\n"


def to_dict(recalibrator: Recalibrator) -> dict[str, Any]:
    """Return a fitted recalibrator as plain values that JSON can hold."""
    return header(FORMAT, SCHEMA) | _encode_fitted(recalibrator)


def load(path: str | os.PathLike[str]) -> Recalibrator:
    """Read a recalibrator, or a repair of quantiles, that its `save` wrote.

    Nothing in the file is executed.

    Parameters
    ----------
    path : str or path-like
        The JSON file.

    Returns
    -------
    Recalibrator
        Fitted, of the class that was saved.

    Raises
    ------
    InvalidDocumentError
        If the file is damaged, incomplete or of another version.

    See Also
    --------
    Recalibrator.save : writes it.

    Examples
    --------
    >>> import tempfile
    >>> from calibrant.recalibrators import PlattScaling
    >>> platt = PlattScaling().fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     platt.save(f"{folder}/platt.json")
    ...     same = load(f"{folder}/platt.json")
    >>> same.slope_ == platt.slope_
    True
    """
    try:
        content = Path(path).read_bytes()
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"path must name a file, as text or as a pathlib.Path; got {path!r:.60}. Pass "
            "what save was given."
        ) from error
    return from_json(content)


def from_json(text: str | bytes) -> Recalibrator:
    """Rebuild a recalibrator from `to_json`."""
    document = read_json(text, "A recalibrator")
    if isinstance(document, dict) and document.get("format") == quantiles.FORMAT:
        return quantiles.from_dict(document)
    document = check_header(document, FORMAT, SCHEMA, "A saved recalibrator", "Fit again")
    return _decode_fitted(document, 0)


def _encode_fitted(recalibrator: Recalibrator) -> dict[str, Any]:
    fingerprint, table = recalibrator.fingerprint_, recalibrator.table_fingerprint_
    result, names = asdict(recalibrator.fit_result_), fitted_names(recalibrator)
    return {
        **_encode_unfitted(recalibrator),
        "classes": recalibrator.classes_.tolist(),
        **({"columns": names} if names else {}),
        "learned": {
            name.rstrip("_"): _encode(getattr(recalibrator, name), kind)
            for name, kind in recalibrator._learned.items()
        },
        "fit": {
            name: str(value) if isinstance(value, float) and not np.isfinite(value) else value
            for name, value in result.items()
        },
        "fingerprint": None if fingerprint is None else fingerprint.to_dict(),
        **({} if table is None else {"table": table.to_dict()}),
    }


def _encode_unfitted(recalibrator: Any) -> dict[str, Any]:
    name = type(recalibrator).__name__
    if known().get(name) is not type(recalibrator):
        raise InvalidArgumentError(
            "Only calibrant's own recalibrators can be saved; "
            f"{getattr(recalibrator, '_name', name)} is not one of them. As the scaler of a "
            "ScalingBinning its steps can: as_steps()."
        )
    parameters = recalibrator.get_params(deep=False)
    return {
        "recalibrator": name,
        "parameters": {name: _encode_parameter(name, x) for name, x in parameters.items()},
    }


def _encode_parameter(name: str, value: Any) -> Any:
    if isinstance(value, Recalibrator) or hasattr(value, "fit"):
        return _encode_unfitted(value)
    if isinstance(value, np.generic):
        value = value.item()
    if name == "bins":
        value = _encode_bins(value)
    if isinstance(value, tuple | list):
        return [_encode_parameter(name, item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InvalidArgumentError(
        f"{name}={value!r:.80} cannot be saved; use a number or a name for it."
    )


def _encode_bins(bins: Any) -> Any:
    """Return bins as the text, the number or the edges that mean the same."""
    if isinstance(bins, np.ndarray | Bins):
        return (bins.edges if isinstance(bins, Bins) else bins).tolist()
    for name, rule in (("mass", EqualMass), ("width", EqualWidth), ("hybrid", Hybrid)):
        if isinstance(bins, rule) and bins == rule(bins.n_bins):
            return f"{name}:{bins.n_bins}"
    return "distinct" if isinstance(bins, Distinct) else bins


def _encode(value: Any, kind: str = "") -> Any:
    if kind == "group columns":
        return by_to_json(value)
    if isinstance(value, Recalibrator):
        return _encode_fitted(value)
    if isinstance(value, Bins | Fingerprint):
        return value.to_dict()
    if isinstance(value, list):
        return [_encode(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _decode_fitted(document: Any, depth: int) -> Recalibrator:
    recalibrator = _decode_unfitted(document, depth)
    fewest = 1 if recalibrator._reads == "labels" else 2
    recalibrator.classes_ = _decode_classes(_entry(document, "classes"), fewest)
    keep_names(recalibrator, _decode_columns(document, recalibrator.classes_.size))
    learned = _entry(document, "learned")
    if isinstance(learned, dict) and _is_older(recalibrator, document["parameters"]):
        learned = {"smoothing": 0.0, **learned}
    names = {name.rstrip("_"): name for name in recalibrator._learned}
    if not isinstance(learned, dict) or set(learned) != set(names):
        raise InvalidDocumentError(f'"learned" must hold exactly {sorted(names)}.')
    for name, attribute in names.items():
        kind = recalibrator._learned[attribute]
        setattr(recalibrator, attribute, _decode(learned[name], kind, name, depth))
    recalibrator.fit_result_ = _decode_result(_entry(document, "fit"))
    fingerprint = _entry(document, "fingerprint")
    recalibrator.fingerprint_ = None if fingerprint is None else Fingerprint.from_dict(fingerprint)
    if "table" in document:
        recalibrator.table_fingerprint_ = TableFingerprint.from_dict(document["table"])
    try:
        recalibrator._check_parameters()
        recalibrator._check_learned()
    except (ValueError, TypeError) as error:
        name = type(recalibrator).__name__
        raise InvalidDocumentError(f"Not a valid {name}: {error!s:.300}.") from error
    return recalibrator


def _decode_unfitted(document: Any, depth: int) -> Recalibrator:
    name, parameters = _entry(document, "recalibrator"), _entry(document, "parameters")
    cls = known().get(name) if isinstance(name, str) else None
    if cls is None or depth > MAX_DEPTH:
        raise InvalidDocumentError(f"There is no recalibrator named {name!r:.60}.")
    if isinstance(parameters, dict) and _is_older(cls, parameters):
        parameters = {name: x for name, x in LATER.items() if name in cls._get_param_names()} | (
            parameters
        )
    if cls is Identity and parameters == {}:  # written before Identity could read logits
        parameters = {"input": "probabilities"}
    if isinstance(parameters, dict) and "n_bins" in parameters and "bins" in parameters:
        parameters = _with_bins_in_one_word(parameters)
    if not isinstance(parameters, dict) or set(parameters) != set(cls._get_param_names()):
        raise InvalidDocumentError(f"{name} needs the parameters {cls._get_param_names()}.")
    return cls(**{key: _decode_parameter(value, depth) for key, value in parameters.items()})


def _is_older(recalibrator: Any, parameters: dict[str, Any]) -> bool:
    """Tell whether a document was written before recalibrators like this one could smooth."""
    return "smoothing_" in recalibrator._learned and not LATER.keys() & parameters.keys()


def _with_bins_in_one_word(parameters: dict[str, Any]) -> dict[str, Any]:
    """Read documents from when the rule of bins and their number were two parameters."""
    number, rule = parameters["n_bins"], parameters["bins"]
    bins = f"{rule}:{number}" if type(number) is int and rule != "auto" else number
    others = {name: value for name, value in parameters.items() if name != "n_bins"}
    return {**others, "bins": bins}


def _decode_parameter(value: Any, depth: int) -> Any:
    if isinstance(value, dict):
        return _decode_unfitted(value, depth + 1)
    return tuple(value) if isinstance(value, list) else value


def _decode_classes(names: Any, fewest: int) -> Any:
    valid = isinstance(names, list) and all(type(x) in (str, int, float, bool) for x in names)
    if not valid or len(names) < fewest or len(set(names)) != len(names):
        raise InvalidDocumentError(
            f'"classes" must be a list of at least {fewest} different labels.'
        )
    return np.array(names)


def _decode_columns(document: Any, n_classes: int) -> list[str]:
    names: Any = document.get("columns", [])
    valid = isinstance(names, list) and all(type(x) is str for x in names)
    if not valid or len(names) not in (0, 1, n_classes):
        raise InvalidDocumentError(
            f'"columns" must be a list of names, one for each of {n_classes:,} columns.'
        )
    return list(names)


def _decode_result(document: Any) -> FitResult:
    names = ("converged", "iterations", "loss", "loss_identity", "flags")
    if not isinstance(document, dict) or set(document) != set(names):
        raise InvalidDocumentError(f'"fit" must hold {", ".join(names)}.')
    losses = [document["loss"], document["loss_identity"]]
    flags = document["flags"]
    steps = document["iterations"]
    valid = (
        all(type(x) is float or x in ("inf", "nan", 0, 1) for x in losses)
        and type(steps) is int
        and type(document["converged"]) is bool
        and isinstance(flags, list)
        and all(isinstance(flag, str) for flag in flags)
    )
    if not valid:
        raise InvalidDocumentError('"fit" must hold numbers and a list of words.')
    loss, identity = map(float, losses)
    return FitResult(document["converged"], steps, loss, identity, tuple(flags))


def _decode(value: Any, kind: str, name: str, depth: int) -> Any:
    if kind.endswith("?"):
        return None if value is None else _decode(value, kind[:-1], name, depth)
    if kind == "bins":
        return Bins.from_dict(value)
    if kind == "fingerprint":
        return Fingerprint.from_dict(value)
    if kind == "group columns":
        return read_by(value)
    if kind == "groups":
        return value  # `ByGroup` reads them with its columns
    if kind == "recalibrator":
        return _decode_fitted(value, depth + 1)
    if kind == "recalibrators":
        if not isinstance(value, list):
            raise InvalidDocumentError(f'"{name}" must be a list of recalibrators.')
        return [None if item is None else _decode_fitted(item, depth + 1) for item in value]
    return _decode_numbers(value, kind, name)


def _decode_numbers(value: Any, kind: str, name: str) -> FloatArray | float:
    dimensions = {"number": 0, "positive": 0, "share": 0, "matrix": 2}.get(kind, 1)
    if not _holds_numbers(value, dimensions):
        raise InvalidDocumentError(f'"{name}" must hold finite numbers in {dimensions} dimensions.')
    try:
        array = np.array(value, np.float64)
    except (ValueError, OverflowError) as error:
        raise InvalidDocumentError(f'"{name}" must have rows of one length.') from error
    wrong = (
        not np.isfinite(array).all()
        or (array.size > 0 and np.abs(array).max() > LARGEST_NUMBER)
        or (kind == "positive" and array <= 0)
        or (kind == "share" and not is_share(float(array)))
        or (kind == "probabilities" and (array.size == 0 or array.min() < 0 or array.max() > 1))
        or (kind == "rising" and (np.diff(array) <= 0).any())
    )
    if wrong:
        expected = {"probabilities": "numbers in [0, 1]", "rising": "rising numbers"}
        other = f"finite numbers of at most {LARGEST_NUMBER:g} in size"
        raise InvalidDocumentError(f'"{name}" must hold {expected.get(kind, other)}.')
    return array if dimensions else float(array)


def _holds_numbers(value: Any, dimensions: int) -> bool:
    if dimensions == 0:
        return type(value) in (int, float)
    return isinstance(value, list) and all(_holds_numbers(item, dimensions - 1) for item in value)


def _entry(document: Any, name: str) -> Any:
    if not isinstance(document, dict) or name not in document:
        raise InvalidDocumentError(f'A saved recalibrator needs "{name}"; this document has none.')
    return document[name]
