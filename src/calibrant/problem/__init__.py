"""What the user's arrays mean: the problem, and the rows."""

from calibrant.problem.kinds import Kind, Label, Problem, read_problem
from calibrant.problem.rows import Rows, off_device, read_rows

__all__ = ["Kind", "Label", "Problem", "Rows", "off_device", "read_problem", "read_rows"]
