"""The command line: translates flags to the calls of the Python interface and answers to text or JSON."""

from papilio.cli.app import cli, main

__all__ = ["cli", "main"]
