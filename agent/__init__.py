"""What an agent needs to ask people before it acts; independent of Slack."""

import sys

from signoff.former_names import FormerModules

sys.meta_path.append(FormerModules())
