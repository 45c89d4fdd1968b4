"""`python -m ladderspec`."""

import sys

from ladderspec.cli import main

sys.exit(main())
