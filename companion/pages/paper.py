"""The paper's numbers under their old name, while imports move to ``companion.record.paper``."""

import sys

from companion.record import paper

sys.modules[__name__] = paper
