"""The command `doctor`: installed packages, and a test of the installation."""

from __future__ import annotations

from custodes.diagnosis import Doctor
from custodes.diagnosis import doctor as test_installation
from custodes.options import Output
from custodes.question_commands import OUTPUT


def doctor(output: Output = OUTPUT) -> int:
    """List the installed packages and the extras, and test the installation, which takes about 5 seconds.

    The exit status is 1 if the version of a required package is not supported, or if a test fails.

    Example: `custodes doctor --format json`
    """
    output.check((), Doctor.table_declarations())
    return output.answer(lambda progress: test_installation())
