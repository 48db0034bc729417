"""`python -m helpers`: the command line. See `helpers.cli`."""

import os
import sys

if __name__ == "__main__":
    try:
        from helpers.cli import main
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        sys.exit(130)
    code = main()
    if code == 130:   # Ctrl-C: what libraries do at Python's end may wait for what was interrupted
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
