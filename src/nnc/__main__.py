"""python -m nnc COMMAND …"""

import sys

from nnc.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
