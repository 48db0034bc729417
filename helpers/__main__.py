"""`python -m helpers`: the command line. See `helpers.cli`."""

import sys

if __name__ == "__main__":
    try:
        from helpers.cli import main
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        sys.exit(130)
    sys.exit(main())
