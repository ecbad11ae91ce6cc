"""python -m nnc COMMAND …"""

import sys

from nnc.cli.main import process

if __name__ == "__main__":
    sys.exit(process())
