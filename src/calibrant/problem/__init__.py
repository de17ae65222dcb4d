"""What the user's arrays mean: the problem, and the rows."""

from calibrant.problem.kinds import Kind, Label, Problem, read_problem, same_number
from calibrant.problem.logits import Input, check_input, probabilities_of
from calibrant.problem.rows import (
    LARGEST_WEIGHT,
    SMALLEST_HEAVIEST,
    Rows,
    absent_event,
    check_heaviest,
    off_device,
    read_meaning,
    read_rows,
    refuse_masked,
)

__all__ = [
    "LARGEST_WEIGHT",
    "SMALLEST_HEAVIEST",
    "Input",
    "Kind",
    "Label",
    "Problem",
    "Rows",
    "absent_event",
    "check_heaviest",
    "check_input",
    "off_device",
    "probabilities_of",
    "read_meaning",
    "read_problem",
    "read_rows",
    "refuse_masked",
    "same_number",
]
