"""How Sphinx builds the site from the pages in this folder: `scripts/docs`."""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent / "src")]

import calibrant  # noqa: E402
from calibrant import __version__, exceptions, stats  # noqa: E402

project = "calibrant"
author = "The calibrant developers"
copyright = author  # noqa: A001
version = release = __version__
language = "en"
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "site_extensions",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
default_role = "py:obj"  # in docstrings, `calibration_error` is a link
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # the docstrings say more
autodoc_member_order = "bysource"

# Pages that the reference links to: the theory of each name.
guide_pages = {
    "how-it-works": "calibration_error tabulate brier_decomposition BinTable Tables "
    "stats.CalibrationErrorResult stats.ScoreDecomposition stats.ConfidenceInterval",
    "choosing": "calibration_error reliability_curve EqualMass EqualWidth Hybrid Distinct Bins "
    "recommended_bins",
    "coverage": "calibration_error stats.CalibrationErrorResult stats.ConfidenceInterval compare "
    "compare_tables stats.Comparison stats.Comparisons stats.Difference stats.TableComparison",
    "quickstart": "calibration_error CalibrationMetric show_versions",
    "certificates": "certify Certificate certify_label_shift recheck bin_free_bounds "
    "prequential_lower_bound samples_to_certify smallest_certifiable_error stats.Recheck "
    "stats.BinFreeBounds stats.MiscalibrationBound stats.LabelShiftCertificate",
    "calibration-tests": "calibration_test stats.CalibrationTestResult stats.CoxTestResult",
    "groups": "ByGroup audit compare compare_tables Tables stats.Audit stats.AuditedGroup "
    "stats.GroupCertificates stats.GroupErrors stats.GroupCurves stats.GroupSelectiveCurves "
    "stats.GroupCoverage",
    "monitoring": "CalibrationMonitor stats.MonitoredBatch",
    "recalibrating": "ScalingBinning HistogramBinning PlattScaling BetaScaling QuadraticScaling "
    "IsotonicCalibration VennAbers Identity TemperatureScaling VectorScaling MatrixScaling "
    "DirichletScaling JointBetaScaling SplineCalibration PriorShift "
    "OneVsRest TopLabel MultiLabel best_recalibrator RecalibratedClassifier samples_to_calibrate "
    "recalibrators.Recalibrator recalibrators.FitResult recalibrators.RecalibratorScores "
    "recalibrators.Fingerprint recalibrators.ResolutionReport",
    "deploying": "load recalibrators.Recalibrator",
    "selective": "selective_curve SelectiveDisplay stats.SelectiveCurve stats.SelectiveCertificate",
    "decisions": "decision_curve DecisionDisplay stats.DecisionCurve",
    "plotting": "ReliabilityDisplay reliability_curve stats.ReliabilityCurve stats.IsotonicCurve",
    "report": "report reports.Report",
    "recipe-torch": "torch.CalibrationError",
    "recipe-clinical": "validate decision_curve stats.Validation",
    "recipe-credit": "grade_backtest PriorShift stats.GradeBacktest stats.prudent_pds",
    "recipe-forecasting": "skill_score ranked_probability_score stats.SkillScore",
    "recipe-llm": "read_log",
    "recipe-regression": "certify_coverage pit_histogram PitDisplay pinball_loss crps "
    "normal_quantiles sample_quantiles QuantileRecalibration VarianceScaling",
    "integrations": "calibration_scorer RecalibratedClassifier",
    "install": "show_versions",
}

folded_pages = {"coverage", "performance", "reproducing"}
intersphinx_mapping: dict[str, tuple[str, str]] = {}  # filled from inventories.txt

# Classes list their methods with their text on one page: nothing to click through.
numpydoc_show_class_members = False
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"  # words that are not listed below are words
numpydoc_xref_aliases = {
    "ndarray": "numpy.ndarray",
    "Generator": "numpy.random.Generator",
    "Axes": "matplotlib.axes.Axes",
    "Figure": "matplotlib.figure.Figure",
    **{name: f"calibrant.stats.{name}" for name in stats.__all__ if name[0].isupper()},
    **{name: f"calibrant.{name}" for name in calibrant.__all__ if name[0].isupper()},
    **{name: f"calibrant.exceptions.{name}" for name in vars(exceptions) if name[0].isupper()},
}

myst_enable_extensions = ["attrs_inline", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_dmath_double_inline = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = f"calibrant {version}"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = html_show_sourcelink = False
html_sidebars = {"index": [], "install": [], "changes": []}  # no pages below them to list
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": html_title},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_prev_next": False,
    "show_toc_level": 2,
    "navigation_depth": 2,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-light",
    "pygments_dark_style": "a11y-dark",
}
