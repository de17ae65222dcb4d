"""Measure, repair and certify classifiers on embedded data: what ``calibrant demo`` does."""

import sys

from calibrant.cli import main

if __name__ == "__main__":
    sys.exit(main(["demo", *sys.argv[1:]]))
