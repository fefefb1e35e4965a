"""Protocol of the worker scripts: requests and answers are lines of JSON; see docs/howto/run-a-worker.md."""

import argparse
import json
import os
import threading
import time
from queue import SimpleQueue

DEVICE = os.environ.get("CUSTODES_DEVICE", "cpu")
requests, answers = SimpleQueue(), os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # output of libraries goes to standard error


def queue_requests(stream):
    for line in stream:
        requests.put(json.loads(line))
    os._exit(0)  # the input has ended: no more requests


threading.Thread(target=queue_requests, args=[os.fdopen(os.dup(0), "rb")], daemon=True).start()


def parse_options(description, **arguments_of_option):
    """Parse the options of a script, given the arguments of `add_argument` for each option."""
    parser = argparse.ArgumentParser(description=description)
    for option_name, option_arguments in arguments_of_option.items():
        parser.add_argument(f"--{option_name}", **option_arguments)
    return parser.parse_args()


def serve(score, **hello_fields):
    """Answer requests with `score`, a function from a list of rows to a dictionary with `scores` and further fields."""
    print(json.dumps({"protocol": 1, **hello_fields}), file=answers, flush=True)
    while True:
        request, start_cpu_seconds = requests.get(), time.process_time()
        answer = score(request["rows"])
        answer = {"id": request["id"], "seconds": time.process_time() - start_cpu_seconds, **answer}
        print(json.dumps(answer), file=answers, flush=True)
