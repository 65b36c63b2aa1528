"""The applications that the demo puts a toll in front of, and the program that pays."""
