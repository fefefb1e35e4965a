"""The verb `doctor`: what is installed, and whether it works."""

from __future__ import annotations

from custodes.console import quiet_pipe
from custodes.diagnosis import Doctor
from custodes.diagnosis import doctor as examined
from custodes.options import Output
from custodes.verbs import OUTPUT, answered


def doctor(output: Output = OUTPUT) -> int:
    """What is installed, what each missing extra would give, and whether it works: a test of about 5 seconds.

    Exit status 1 where a needed package does not fit or a test fails.

    Example: `custodes doctor --format json`
    """
    output.check((), Doctor.declared())
    found, seconds = answered(lambda _, progress: examined(), None, output, {})
    with quiet_pipe():
        output.write(found, seconds)
    return int(found.status)
