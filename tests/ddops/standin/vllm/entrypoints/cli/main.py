"""`python -m vllm.entrypoints.cli.main serve MODEL`, without a model."""

import os
import sys

from tests.ddops.standin.foreign import serve

assert sys.argv[1] == "serve"
asked = ["--help" if word == "--help=all" else word for word in sys.argv[2:]]
serve("vllm-0.33.0", asked, info="/version", key=os.environ.get("VLLM_API_KEY"))
