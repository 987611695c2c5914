"""Ask people before an agent acts; independent of Slack."""

import sys

from signoff.former_names import FormerModules

sys.meta_path.append(FormerModules())
