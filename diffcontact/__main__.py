"""`python -m diffcontact`."""

import sys

from diffcontact.cli import main

sys.exit(main())
