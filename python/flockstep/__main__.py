"""python -m flockstep: the same as the console script `flockstep`."""

import sys

from flockstep._command import main

sys.exit(main())
