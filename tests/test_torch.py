"""calibrant.torch.CalibrationError: the number of calibration_error, in a training loop."""

from __future__ import annotations

import copy
import io
import json
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import calibrant as cb
from calibrant.exceptions import (
    EmptyInputError,
    IncompatibleTablesError,
    InvalidArgumentError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    InvalidShapeError,
    NotFiniteError,
)
from calibrant.stats import CalibrationErrorResult
from conftest import optional

torch = optional("torch")
from calibrant.torch import CalibrationError  # noqa: E402

try:
    import torchmetrics
except ImportError:
    torchmetrics = None


def batch(n=200, k=5, seed=0):
    """Return logits and labels of a model that is too sure."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n, k, generator=generator)
    gumbel = -torch.log(-torch.log(torch.rand(n, k, generator=generator)))
    return 2 * logits, (logits + gumbel).argmax(dim=1)


def expected(logits, labels, kind="top-label", **options):
    options = {"bins": "width:15", "input": "logits"} | options
    return cb.calibration_error(labels.numpy(), logits.double().numpy(), kind=kind, **options)


@pytest.mark.parametrize("kind", ["top-label", "marginal"])
@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_batches_give_the_number_of_calibration_error(kind, norm):
    logits, labels = batch()
    metric = CalibrationError(kind, n_classes=5, input="logits", norm=norm)
    for part in range(0, 200, 50):
        metric.update(logits[part : part + 50], labels[part : part + 50])
    result = expected(logits, labels, kind, norm=norm)
    assert metric.compute().item() == pytest.approx(result.value, rel=1e-12)
    assert metric.result().n == result.n
    assert isinstance(metric.result(), CalibrationErrorResult)


def test_several_labels_a_row_are_read_in_the_shape_of_the_predictions():
    logits, _ = batch(120, 3)
    marks = (torch.rand(120, 3, generator=torch.Generator().manual_seed(1)) < 0.4).long()
    metric = CalibrationError("multi-label", n_classes=3, input="logits")
    for part in range(0, 120, 40):
        metric.update(logits[part : part + 40], marks[part : part + 40])
    result = expected(logits, marks, "multi-label")
    assert metric.compute().item() == pytest.approx(result.value, rel=1e-12)
    images = CalibrationError("multi-label", n_classes=3, input="logits")
    images.update(logits.T.reshape(1, 3, 120), marks.T.reshape(1, 3, 120))
    assert images.compute().item() == pytest.approx(result.value, rel=1e-12)
    ignoring = CalibrationError("multi-label", n_classes=3, input="logits", ignore_index=-100)
    ignoring.update(logits, torch.where(torch.arange(120)[:, None] < 20, -100, marks))
    alone = expected(logits[20:], marks[20:], "multi-label")
    assert ignoring.compute().item() == pytest.approx(alone.value, rel=1e-12)
    with pytest.raises(InvalidShapeError, match="3 labels"):
        metric.update(logits, marks[:, 0])
    metric.update(logits, marks + 1)
    with pytest.raises(InvalidLabelsError):
        metric.compute()
    with pytest.raises(InvalidArgumentError, match="CalibrationMetric"):
        CalibrationError("ordinal", n_classes=3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_every_floating_type_is_read_as_it_is(dtype):
    logits, labels = batch()
    logits = logits.to(getattr(torch, dtype))
    metric = CalibrationError(n_classes=5, input="logits")
    metric.update(logits, labels)
    assert metric.compute().item() == pytest.approx(expected(logits, labels).value, rel=1e-12)


@pytest.mark.parametrize("kind", ["top-label", "marginal"])
@pytest.mark.parametrize("n_classes", [100, 200, 256, 300])
@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "uint32", "uint64", "float16", "bfloat16"]
)
def test_labels_of_every_type_are_read_with_any_number_of_classes(dtype, n_classes, kind):
    logits, _ = batch(k=n_classes)
    labels = torch.arange(200) % min(n_classes, 128)
    metric = CalibrationError(kind, n_classes=n_classes, input="logits")
    metric.update(logits, labels.to(getattr(torch, dtype)))
    assert metric.compute().item() == pytest.approx(expected(logits, labels, kind).value, rel=1e-12)


@pytest.mark.parametrize(("dtype", "label"), [("uint8", 156), ("int8", -1)])
def test_a_label_is_not_taken_for_an_ignored_one_that_its_type_cannot_hold(dtype, label):
    labels = torch.tensor([label, 0], dtype=getattr(torch, dtype))
    metric = CalibrationError(n_classes=200, ignore_index={156: -100, -1: 255}[label])
    metric.update(torch.full((2, 200), 1 / 200), labels)
    if label < 0:
        with pytest.raises(InvalidLabelsError, match="1 are not"):
            metric.compute()
    else:
        assert metric.result().n == 2


def test_complex_numbers_are_refused():
    real = torch.tensor([0.5, 1.0])
    for pair in ((real.to(torch.complex64), real), (real, real.to(torch.complex64))):
        with pytest.raises(InvalidArgumentError, match="of torch.complex64"):
            CalibrationError().update(*pair)


def test_one_event_in_one_column_in_two_and_as_logits():
    logits, labels = batch(k=2)
    both = logits.double().softmax(dim=1)
    value = cb.calibration_error(labels.numpy(), both.numpy(), bins="width:15").value
    for preds, given in (
        (both[:, 1], "probabilities"),
        (both[:, 1:], "probabilities"),
        (both, "probabilities"),
        (logits[:, 1].double() - logits[:, 0].double(), "logits"),
        (logits, "logits"),
    ):
        metric = CalibrationError(input=given)
        metric.update(preds, labels)
        assert metric.compute().item() == pytest.approx(value, rel=1e-9)


def test_images_sequences_and_strided_tensors_are_rows_too():
    logits, labels = batch(n=240)
    flat = CalibrationError(n_classes=5, input="logits")
    flat.update(logits, labels)
    image = CalibrationError(n_classes=5, input="logits")
    image.update(logits.reshape(4, 6, 10, 5).permute(0, 3, 1, 2), labels.reshape(4, 6, 10))
    tokens = CalibrationError(n_classes=5, input="logits", class_dim=-1)
    tokens.update(logits.reshape(4, 60, 5), labels.reshape(4, 60))
    strided = CalibrationError(n_classes=5, input="logits")
    strided.update(logits.T.contiguous().T, labels.repeat_interleave(2)[::2])
    for other in (image, tokens, strided):
        assert torch.equal(other.sums, flat.sums)
        assert torch.equal(other.compute(), flat.compute())


def test_the_class_axis_is_declared_and_never_guessed():
    metric = CalibrationError(n_classes=5, input="logits")
    with pytest.raises(InvalidShapeError, match="pass class_dim=-1"):
        metric.update(torch.zeros(2, 7, 5), torch.zeros(2, 7))
    for preds, target in (
        (torch.zeros(3, 4), torch.zeros(3)),
        (torch.zeros(3, 5), torch.zeros(4)),
        (torch.zeros(3), torch.zeros(3)),
        (torch.zeros(3, 5), torch.zeros(3, 5)),
    ):
        with pytest.raises(InvalidShapeError, match="got preds of shape"):
            metric.update(preds, target)
    assert not metric.sums.any()


def test_arrays_are_refused_with_the_order_of_arguments():
    metric = CalibrationError()
    with pytest.raises(InvalidArgumentError, match=r"\(preds, target\); preds is ndarray"):
        metric.update(np.array([0.5]), torch.tensor([1]))


def test_ignored_labels_are_left_out():
    logits, labels = batch()
    masked = torch.where(torch.arange(200) % 3 == 0, -100, labels)
    logits[0] = torch.nan  # its label is ignored
    metric = CalibrationError(n_classes=5, input="logits", ignore_index=-100)
    metric.update(logits, masked)
    used = masked != -100
    assert metric.compute().item() == pytest.approx(
        expected(logits[used], labels[used]).value, rel=1e-12
    )
    assert metric.result().n == int(used.sum())


@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric")
def test_without_rows_the_error_is_nan_and_a_result_is_refused():
    nothing = CalibrationError(n_classes=5, ignore_index=-100)
    ignored = CalibrationError(n_classes=5, ignore_index=-100)
    ignored.update(torch.full((3, 5), 0.2), torch.full((3,), -100))
    empty = CalibrationError(n_classes=5)
    empty.update(torch.zeros(0, 5), torch.zeros(0, dtype=torch.long))
    for metric in (nothing, ignored, empty):
        assert metric.compute().isnan()
        with pytest.raises(EmptyInputError, match="update"):
            metric.result()


def test_one_row_has_an_error():
    metric = CalibrationError(norm="l1", debias=False)
    metric.update(torch.tensor([0.75], dtype=torch.float64), torch.tensor([1]))
    assert metric.compute().item() == 0.25


@pytest.mark.parametrize(
    ("preds", "target", "error", "words"),
    [
        ([0.5, float("nan")], [0, 1], NotFiniteError, "1 rows hold NaN"),
        ([0.5, 1.5], [0, 1], InvalidProbabilitiesError, r"lie in \[0, 1\]"),
        ([0.5, -0.1], [0, 1], InvalidProbabilitiesError, r"lie in \[0, 1\]"),
        ([0.5, 0.5], [0, 2], InvalidLabelsError, "among the classes"),
        ([0.5, 0.5], [0, -100], InvalidLabelsError, "among the classes"),
        ([[0.5, 0.5], [1.5, 0.5]], [0, 1], InvalidProbabilitiesError, r"lie in \[0, 1\]"),
        ([[0.5, 0.5], [float("nan"), 0.5]], [0, 1], NotFiniteError, "hold NaN"),
    ],
)
def test_wrong_values_are_named_when_the_error_is_computed(preds, target, error, words):
    metric = CalibrationError()
    metric.update(torch.tensor(preds), torch.tensor(target))
    for ask in (metric.compute, metric.result):
        with pytest.raises(error, match=words):
            ask()
    metric.reset()
    metric.update(torch.tensor([0.25]), torch.tensor([0]))
    assert metric.compute().isfinite()


def test_a_thousand_classes():
    logits, labels = batch(n=300, k=1000)
    for kind in ("top-label", "marginal"):
        metric = CalibrationError(kind, n_classes=1000, input="logits")
        metric.update(logits, labels)
        found, exact = metric.compute().item(), expected(logits, labels, kind).value
        assert found == pytest.approx(exact, rel=1e-12)


def test_gradients_autocast_and_inference_mode_do_not_matter():
    logits, labels = batch()
    plain = CalibrationError(n_classes=5, input="logits")
    plain.update(logits, labels)
    other = CalibrationError(n_classes=5, input="logits")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        other.update(logits[:50].clone().requires_grad_(), labels[:50])
    with torch.no_grad():
        other.update(logits[50:100], labels[50:100])
    with torch.inference_mode():
        other.update(logits[100:150], labels[100:150])
        other.compute()
    other.update(logits[150:], labels[150:])
    assert torch.equal(other.sums, plain.sums)
    assert not other.sums.requires_grad
    with torch.inference_mode():
        other.reset()
        other.update(logits[:50], labels[:50])
    other.update(logits[50:], labels[50:])
    assert torch.equal(other.sums, plain.sums)


def test_forward_gives_the_error_of_the_batch_and_keeps_it():
    logits, labels = batch()
    metric = CalibrationError(n_classes=5, input="logits", norm="l1")
    for part in (slice(0, 120), slice(120, 200)):
        value = metric(logits[part], labels[part])
        assert value.item() == pytest.approx(
            expected(logits[part], labels[part], norm="l1").value, rel=1e-12
        )
    assert metric.compute().item() == pytest.approx(
        expected(logits, labels, norm="l1").value, rel=1e-12
    )


def test_pickles_copies_and_states_carry_on():
    logits, labels = batch()
    metric = CalibrationError(n_classes=5, input="logits")
    metric.update(logits[:100], labels[:100])
    file = io.BytesIO()
    torch.save(metric.state_dict(), file)
    file.seek(0)
    loaded = CalibrationError(n_classes=5, input="logits")
    loaded.load_state_dict(torch.load(file, weights_only=True))
    same = [pickle.loads(pickle.dumps(metric)), copy.deepcopy(metric), loaded]
    for each in (metric, *same):
        each.update(logits[100:], labels[100:])
    for each in same:
        assert torch.equal(each.compute(), metric.compute())


def test_a_loaded_state_is_a_copy():
    logits, labels = batch()
    metric = CalibrationError(n_classes=5, input="logits")
    metric.update(logits, labels)
    state = metric.state_dict()
    before = state["sums"].clone()
    loaded = CalibrationError(n_classes=5, input="logits")
    loaded.load_state_dict(state)
    loaded.update(logits, labels)
    assert torch.equal(state["sums"], before)


@pytest.mark.parametrize(
    "options",
    [
        {"bins": "width:10"},
        {"input": "probabilities"},
        {"kind": "marginal"},
        {"n_classes": 6},
        {"ignore_index": -100},
    ],
)
def test_a_state_of_another_metric_is_refused(options):
    metric = CalibrationError(n_classes=5, input="logits")
    other = CalibrationError(**{"n_classes": 5, "input": "logits"} | options)
    with pytest.raises(IncompatibleTablesError, match="another metric"):
        other.load_state_dict(metric.state_dict())


def test_a_model_without_the_metric_can_be_loaded_into_one_with_it():
    model = torch.nn.ModuleDict({"layer": torch.nn.Linear(2, 2)})
    state = model.state_dict()
    model["error"] = CalibrationError()
    model.load_state_dict(state, strict=True)
    assert any(name.startswith("error.") for name in model.state_dict())
    model.half()
    assert model["error"].sums.dtype == torch.int64


def test_threads_do_not_lose_rows():
    logits, labels = batch(n=4000)
    metric = CalibrationError(n_classes=5, input="logits")

    def work(part):
        for start in range(part, 4000, 200):
            metric.update(logits[start : start + 100], labels[start : start + 100])

    threads = [threading.Thread(target=work, args=(part,)) for part in (0, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = CalibrationError(n_classes=5, input="logits")
    whole.update(logits, labels)
    assert torch.equal(metric.sums, whole.sums)


def test_the_order_of_rows_and_batches_changes_no_bit():
    logits, labels = batch(n=1000)
    values = set()
    for seed in range(3):
        order = torch.randperm(1000, generator=torch.Generator().manual_seed(seed))
        metric = CalibrationError("marginal", n_classes=5, input="logits")
        for part in order.split(137 + seed):
            metric.update(logits[part], labels[part])
        values.add(metric.compute().item())
    assert len(values) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bins": 15}, "do not depend on the rows"),
        ({"kind": "marginal"}, "needs n_classes"),
        ({"kind": "ordinary"}, "kind must be"),
        ({"input": "scores"}, "input must be"),
        ({"norm": "l0"}, "norm"),
        ({"class_dim": "last"}, "class_dim must be"),
        ({"class_dim": None}, "class_dim must be"),
        ({"ignore_index": 0.5}, "ignore_index must be"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, words):
    with pytest.raises(InvalidArgumentError, match=words):
        CalibrationError(**options)


def test_importing_calibrant_loads_no_torch():
    code = "import sys, calibrant; calibrant.tabulate; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_calibrant_knows_its_torch_module_but_a_star_import_does_not_bring_it():
    assert cb.torch.CalibrationError is CalibrationError
    assert "torch" not in cb.__all__


def test_a_reliability_diagram_is_drawn():
    optional("matplotlib").use("agg")
    logits, labels = batch()
    metric = CalibrationError(n_classes=5, input="logits")
    metric.update(logits, labels)
    figure, ax = metric.plot()
    assert ax.figure is figure
    optional("matplotlib.pyplot").close(figure)


RANKS = """
import json, multiprocessing, sys, torch
import torch.distributed as dist
from calibrant.torch import CalibrationError

folder = sys.argv[1]


def work(rank, size):
    store = f"file://{folder}/store{size}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    logits, labels = torch.load(f"{folder}/rows.pt")
    kinds = [(kind, norm) for kind in ("top-label", "marginal") for norm in ("l1", "l2")]
    metrics = [CalibrationError(k, n_classes=5, input="logits", norm=norm) for k, norm in kinds]
    for part in torch.arange(len(labels))[rank::size].split(17 + rank):
        for metric in metrics:
            metric.update(logits[part], labels[part])
    values = [metric.compute().item() for metric in metrics]
    own = int(metrics[0].layout.table(metrics[0].sums).n)
    metrics[0].sync()
    synced = metrics[0].compute().item()
    for add in (metrics[0].update, metrics[0]):
        try:
            add(logits[:3], labels[:3])
        except Exception as error:
            assert "sync" in str(error), error
        else:
            raise AssertionError("rows were added to the sums of all processes")
    metrics[0].unsync()
    assert metrics[0].compute().item() == values[0]
    results = [metric.result().value for metric in metrics]
    answer = {"values": values, "own": own, "synced": synced, "results": results}
    with open(f"{folder}/{size}-{rank}.json", "w") as file:
        json.dump(answer, file)
    dist.destroy_process_group()


processes = multiprocessing.get_context("fork")  # torch is imported once
for size in (2, 4):
    ranks = [processes.Process(target=work, args=(rank, size)) for rank in range(size)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert [rank.exitcode for rank in ranks] == [0] * size
"""


@pytest.mark.parametrize("with_torchmetrics", [False, True])
def test_every_one_of_two_and_four_ranks_gives_the_number_of_the_whole(with_torchmetrics, tmp_path):
    if with_torchmetrics and torchmetrics is None:
        pytest.skip("torchmetrics is not installed")
    logits, labels = batch(n=1001)
    torch.save((logits, labels), tmp_path / "rows.pt")
    hide = "" if with_torchmetrics else "import sys; sys.modules['torchmetrics'] = None\n"
    (tmp_path / "ranks.py").write_text(hide + RANKS)
    subprocess.run([sys.executable, tmp_path / "ranks.py", tmp_path], check=True)
    whole = []
    for kind in ("top-label", "marginal"):
        for norm in ("l1", "l2"):
            metric = CalibrationError(kind, n_classes=5, input="logits", norm=norm)
            metric.update(logits, labels)
            whole.append(metric.compute().item())
    for size in (2, 4):
        for rank in range(size):
            answer = json.loads((tmp_path / f"{size}-{rank}.json").read_text())
            assert answer["values"] == answer["results"] == whole  # to the last bit
            assert answer["synced"] == whole[0]
            assert answer["own"] == len(range(rank, 1001, size))


@pytest.mark.skipif(torchmetrics is None, reason="torchmetrics is not installed")
def test_it_is_a_torchmetrics_metric_in_a_collection():
    logits, labels = batch()
    collection = torchmetrics.MetricCollection(
        {
            "accuracy": torchmetrics.classification.MulticlassAccuracy(5),
            "ece": CalibrationError(n_classes=5, input="logits", norm="l1"),
            "error": CalibrationError(n_classes=5, input="logits"),
        }
    )
    for part in (slice(0, 90), slice(90, 200)):
        collection.update(logits[part], labels[part])
    values = collection.compute()
    assert values["ece"].item() == pytest.approx(
        expected(logits, labels, norm="l1").value, rel=1e-12
    )
    assert values["error"].item() == pytest.approx(expected(logits, labels).value, rel=1e-12)
    assert isinstance(collection["ece"], torchmetrics.Metric)


@pytest.mark.skipif(torchmetrics is None, reason="torchmetrics is not installed")
def test_a_collection_does_not_take_metrics_that_read_differently_for_one():
    metrics = {f"ignoring {k}": CalibrationError(n_classes=3, ignore_index=k) for k in (0, 1)}
    collection = torchmetrics.MetricCollection(metrics)
    collection.update(torch.full((4, 3), 0.25), torch.tensor([2, 2, 2, 2]))
    collection.update(torch.full((4, 3), 0.25), torch.tensor([0, 0, 0, 1]))
    assert [collection[name].result().n for name in metrics] == [5, 7]


@pytest.mark.skipif(torchmetrics is None, reason="torchmetrics is not installed")
def test_the_ece_of_torchmetrics_is_reproduced():
    logits, labels = batch(n=2000)
    probs = logits.softmax(dim=1)
    theirs = torchmetrics.classification.MulticlassCalibrationError(5, n_bins=15, norm="l1")
    edges = torch.linspace(0, 1, 16).double().numpy()
    ours = CalibrationError(n_classes=5, bins=edges, norm="l1", debias=False)
    assert float(ours(probs, labels)) == pytest.approx(float(theirs(probs, labels)), abs=1e-6)


def test_without_torchmetrics_the_same_methods_are_there():
    code = """
import sys
sys.modules["torchmetrics"] = None
import copy, pickle, torch
from calibrant.torch import CalibrationError
p, y = torch.rand(50), torch.arange(50) % 2
metric = CalibrationError()
first = metric(preds=p[:20], target=y[:20])
try:
    metric(p[20:], y[:20])
except ValueError:
    assert metric.result().n == 20  # a refused batch changes nothing
else:
    raise AssertionError("20 labels of 30 predictions were taken")
metric.update(p[20:], y[20:])
whole = CalibrationError()
whole.update(p, y)
assert torch.equal(metric.compute(), whole.compute()) and first.isfinite()
for same in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
    assert torch.equal(same.compute(), whole.compute())
loaded = CalibrationError()
loaded.load_state_dict(metric.state_dict())
assert torch.equal(loaded.compute(), whole.compute())
metric.reset()
assert metric.compute().isnan()
"""
    subprocess.run([sys.executable, "-c", code], check=True)
