"""`python -m sglang.launch_server`, without a model."""

import sys

from tests.ddops.standin.foreign import serve

serve("sglang-0.5.23", sys.argv[1:], info="/server_info")
