"""The verb `doctor`: what is installed, and whether it works."""

from __future__ import annotations

from custodes.diagnosis import Doctor
from custodes.diagnosis import doctor as examined
from custodes.options import Output
from custodes.verbs import OUTPUT


def doctor(output: Output = OUTPUT) -> int:
    """What is installed, what each missing extra would give, and whether it works: a test of about 5 seconds.

    Exit status 1 where a needed package does not fit or a test fails.

    Example: `custodes doctor --format json`
    """
    output.check((), Doctor.declared())
    return output.answer(lambda progress: examined())
