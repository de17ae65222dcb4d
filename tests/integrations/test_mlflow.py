"""MLflow: numbers as metrics, the report as an artifact, the repair inside the model."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.naive_bayes import GaussianNB

import calibrant


@pytest.mark.filterwarnings("ignore")  # of MLflow itself
def test_a_run_keeps_numbers_page_and_model(tmp_path):
    mlflow = pytest.importorskip("mlflow")
    x, y = make_classification(600, random_state=0)
    model = calibrant.RecalibratedClassifier(GaussianNB(), cv=3).fit(x[:400], y[:400])
    probs = model.predict_proba(x[400:])
    error = calibrant.calibration_error(y[400:], probs)
    low, high = error.confidence_interval()
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    mlflow.create_experiment("calibration", artifact_location=(tmp_path / "artifacts").as_uri())
    mlflow.set_experiment("calibration")
    with mlflow.start_run() as run, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mlflow.log_metrics({"calibration_error": error.value, "low": low, "high": high})
        mlflow.log_text(calibrant.report(y[400:], probs).html, "calibration.html")
        mlflow.log_dict(error.to_dict(), "calibration.json")
        logged = mlflow.sklearn.log_model(
            model, name="model", serialization_format="cloudpickle", pip_requirements=["calibrant"]
        )
    kept = mlflow.get_run(run.info.run_id)
    assert kept.data.metrics["calibration_error"] == error.value
    page = mlflow.artifacts.load_text(f"{run.info.artifact_uri}/calibration.html")
    assert "Calibration report" in page
    again = mlflow.sklearn.load_model(logged.model_uri)
    np.testing.assert_array_equal(again.predict_proba(x[400:]), probs)
