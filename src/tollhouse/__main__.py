"""`python -m tollhouse` is the command `tollhouse`."""

from tollhouse.cli import main

main()
