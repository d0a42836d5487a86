"""``python -m papilio`` is the command line."""

from papilio.cli import main

if __name__ == "__main__":
    main()
