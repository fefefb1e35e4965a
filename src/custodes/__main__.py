"""`python -m custodes`."""

from custodes.cli import main

main()
