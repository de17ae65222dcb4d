"""calibrant certify, of all rows at once, and calibrant audit, of every group of rows."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any

from calibrant.cli.apply import arrays_to_certify, load_calibrator, read_levels
from calibrant.cli.input import predictions
from calibrant.cli.output import ProgressLine
from calibrant.cli.parser import DATA, OPTIONS, add_command, add_options, bin_mass, whole_number
from calibrant.cli.verdicts import Outcome, add_question_options, answer, question, reported
from calibrant.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from calibrant.stats import Certificate

EXAMPLES = """
calibrant certify preds.parquet --y-true label --y-prob score --max-error 0.02
calibrant certify preds.csv --y-true label --y-prob score --max-error 0.02 -o certificate.json
calibrant certify preds.csv --y-true label --y-prob score --max-error 0.02 --junit gate.xml
calibrant certify scores.csv --y-true label --y-prob score --max-error 0.02 --levels 0.1,0.2,0.5
calibrant certify preds.csv --y-true label --y-prob score --max-error 0.05 --by site
calibrant certify week.json --max-error 0.02
calibrant certify raw.csv --y-true label --y-prob score --max-error 0.02 --calibrator cal.json
"""
NOTES = """
Exit codes: 0 certified, 1 refuted, 2 undecided (too few rows, or continuous outputs).

Every distinct output is a bin of its own. If more than 5% of the rows have an output that no other
row has, or there are more than a million outputs, they are taken as continuous and counted in
bins: such a model can be refuted, never certified. Repair it with `calibrant fit` first.

Rows that grow and are certified again need a plan: --looks 5 at each of five looks, or --looks 2,
6, 12, 20, ... (i times i + 1) at the i-th of any number, after numbers of rows fixed before the
first. Without a plan, certifying until it passes proves less than it says.

With --by every group is certified by itself: refuted if any group is, certified if all are.

A table saved by `measure --table` or `merge` can be given instead of rows; several are added.
"""
EACH_BY_ITSELF = (
    "Each group is certified by itself: of many, some verdicts are wrong by chance. What holds for "
    "all groups at once: calibrant audit."
)
AUDIT_EXAMPLES = """
calibrant audit preds.parquet --y-true label --y-prob score --by sex site --max-error 0.05
calibrant audit preds.csv --y-true label --y-prob score --by age=0,40,65,120 --max-error 0.05
calibrant audit week.json --max-error 0.05
"""
AUDIT_NOTES = """
Exit codes: 0 all groups certified, 1 some refuted, 2 undecided (too few rows, or continuous
outputs, which can be refuted and never certified).

With the requested confidence, all verdicts are right together, however many groups there are: each
gets an equal share of the error probability. p-values are against perfect calibration,
adjusted by Holm's method. Groups that could not be certified even if they were calibrated
are reported as too small, with the number of rows they need.

Tables of groups saved by `measure --by --table` or `merge` can be given instead of rows.
"""
SHARED = (*DATA, "--confidence-level", "--log", "--by", "--cluster")
BINS = "bins instead of every distinct output"


def add(commands: Any) -> None:
    """Register both commands."""
    about_all = "certify or refute that an error is small enough"
    command = add_command(commands, "certify", certify, about_all, EXAMPLES, NOTES)
    add_options(command, *SHARED, bins=BINS)
    command.add_argument(
        "--draws",
        metavar="K",
        type=whole_number,
        help="how often one row of each cluster is drawn (default 4); 1 if most have one row",
    )
    add_question_options(command, "0.02")
    add_options(
        command,
        "--looks",
        "--levels",
        looks="how often these rows will be certified as they grow (default 1: only now)",
        levels=f"{OPTIONS['--levels']['help']}; sharper bounds",
    )
    command.add_argument(
        "--min-bin-mass",
        metavar="SHARE",
        type=bin_mass,
        help="a known lower bound of every output's probability, or learned",
    )
    add_options(
        command,
        *("--calibrator", "--output", "--junit", "--json"),
        calibrator="apply this calibrator first; the rows it was fitted on are refused",
        output="save the certificate",
    )

    about_groups = "certify or refute every group of rows, all at once"
    command = add_command(commands, "audit", audit, about_groups, AUDIT_EXAMPLES, AUDIT_NOTES)
    add_options(command, *SHARED, bins=BINS)
    add_question_options(command, "0.05")
    shown = "save what is printed as JSON"
    add_options(command, "--output", "--junit", "--json", output=shown)


@reported
def certify(args: argparse.Namespace) -> Outcome:
    """Certify, print and return the verdict as exit code."""
    from calibrant._results import filled
    from calibrant.groups import shown_key
    from calibrant.stats import GroupCertificates
    from calibrant.verify import certify

    options = {
        **question(args),
        "looks": args.looks,
        "min_bin_mass": args.min_bin_mass,
        "levels": read_levels(args.levels),
    }
    certificate: Any
    unused = [name for name in ("by", "cluster", "draws") if getattr(args, name)]
    if unused and args.calibrator:
        raise InvalidArgumentError(
            f"--{unused[0]} is for rows that are certified as they are, and "
            "--calibrator changes them first. Apply it with calibrant apply."
        )
    with predictions(args) as inputs:
        if args.calibrator:
            certificate = _recalibrated(inputs, args, options)
        else:
            certificate = certify(**inputs, **options, draws=args.draws)
    if not isinstance(certificate, GroupCertificates):
        return answer(args, certificate, describe(certificate))
    groups = []
    if args.junit:  # certificates of groups are made when they are asked for
        names = map(shown_key, certificate.tables.labels)
        pairs = zip(names, certificate.values(), strict=True)
        groups = [(name, proof.verdict, str(proof)) for name, proof in pairs]
    return answer(args, certificate, f"{certificate}\n{filled(EACH_BY_ITSELF)}", groups)


def _recalibrated(
    inputs: dict[str, Any], args: argparse.Namespace, options: dict[str, Any]
) -> Certificate:
    """Apply a saved calibrator to all rows, and certify what it answers."""
    from calibrant.recalibrators import ByGroup

    calibrator = load_calibrator(args.calibrator)
    if isinstance(calibrator, ByGroup):
        raise InvalidArgumentError(
            f"{args.calibrator} repairs by group, and needs the group of every row. Apply it with "
            "calibrant apply, and certify its answers with calibrant audit --by."
        )
    y_prob, y_true, classes = arrays_to_certify(calibrator, inputs, args)
    options |= {"classes": classes, "kind": args.kind, "bins": inputs.get("bins")}
    options = {name: value for name, value in options.items() if value is not None}
    return calibrator.certify(y_prob, y_true, **options)


def describe(certificate: Certificate) -> str:
    """Return the verdict, and below it what must be true for it to hold."""
    heading = r"\n(?=(It holds|The bounds hold) if\n)"
    return re.sub(heading, f"\n{_yardstick(certificate)}\n", str(certificate), count=1)


def _yardstick(certificate: Certificate) -> str:
    if certificate.table.problem.kind == "quantile":
        from calibrant.stats import certify_coverage

        # a look has its share of the error probability, and a draw of clusters an equal part of it
        level = 1 - (1 - certificate.confidence_level) / certificate.looks
        table, draws = certificate.table, certificate.draws
        return str(certify_coverage(table, confidence_level=level, draws=draws))
    off = f"{certificate.trivial_error:.4f}"
    return f"For comparison: always answering the commoner of 0 and 1 is off by {off}."


@reported
def audit(args: argparse.Namespace) -> Outcome:
    """Audit, print and return the verdict as exit code."""
    from calibrant.audits import audit
    from calibrant.groups import shown_key

    with predictions(args) as inputs, ProgressLine() as line:

        def show(share: float) -> None:
            if line.is_due():
                line.draw("auditing ", share, "of the groups")

        result = audit(**inputs, **question(args), progress=show)
    groups = [(shown_key(group.group), group.verdict, str(group)) for group in result.groups]
    return answer(args, result, str(result), groups)
