"""Worker with one fault, selected by its argument; it does not import custodes."""

import json
import os
import signal
import sys
import time

FAULT = sys.argv[1] if len(sys.argv) > 1 else ""
HELLO = {"protocol": 1, "metric": "length", "version": "1", "needs": ["references"], "high": 99.0}


def say(line):
    sys.stdout.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
    sys.stdout.flush()


def answer(request, scores, **more):
    return {"id": request["id"], "scores": scores, "seconds": 0.25, **more}


print("loading weights", file=sys.stderr, flush=True)
if FAULT == "no hello":
    sys.exit("no such model: x.ckpt")
if FAULT == "silent start":
    time.sleep(60)
if FAULT == "slow start":
    while not os.path.exists("loaded"):
        print("\rloading", end="", file=sys.stderr, flush=True)
        time.sleep(0.02)
hellos = {
    "other protocol": {**HELLO, "protocol": 2},
    "unknown field": {**HELLO, "higher_is_beter": False},
    "small batch": {**HELLO, "max_batch": 3},
    "each": {**HELLO, "each_reference": True},
    "place": {**HELLO, "high": None},
    "rounded": {**HELLO, "high": 1.0},
    "too low": {**HELLO, "low": -99.0},
    "everything": {**HELLO, "needs": ["references", "source", "image", "context"]},
    "high without end": {**HELLO, "low": float("-inf"), "high": 1e400},
    "bounds crossed": {**HELLO, "low": 5, "high": 1},
    "a version of no letters": {**HELLO, "version": "1 \ud800"},
    "unlike": {**HELLO, "version": str(os.getpid())},
    "nothing needed": {**HELLO, "needs": [], "higher_is_better": False},
}
say(hellos.get(FAULT, HELLO))
n_batches = 0
for line in sys.stdin:
    request = json.loads(line)
    rows = request["rows"]
    scores = [len(row["output"]) - sum(map(len, row.get("references", []))) for row in rows]
    n_batches += 1
    if FAULT and n_batches == 2:  # the first batch always has an answer
        print("what comes now was", file=sys.stderr)
        print("the last word", file=sys.stderr, flush=True)
        if FAULT == "exit":
            sys.exit(3)
        elif FAULT == "raise":
            raise RuntimeError("CUDA out of memory")
        elif FAULT == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        elif FAULT == "hang":
            time.sleep(60)
        elif FAULT == "close":
            os.close(1)
            time.sleep(60)
        elif FAULT == "half a line":
            sys.stdout.write('{"id": 2, "scores": [1.0')
            sys.stdout.flush()
            sys.exit(0)
    if FAULT == "later":
        with open("asked", "a") as log:
            log.write(f"{len(rows)} ")
        if n_batches == 10 and not os.path.exists("mended"):
            sys.exit("the disk is full")
    wrong = {
        "too few": answer(request, scores[1:]),
        "wrong id": answer(request, scores) | {"id": 7},
        "words": answer(request, ["1.5"] * len(rows)),
        "seconds without end": answer(request, scores) | {"seconds": float("inf")},
        "hello again": HELLO,
        "printed": "Epoch 1 of 3",
        "deep": "[" * 100_000,
        "few reasons": answer(request, scores, why=["x"]),
        "too high": answer(request, [*scores[1:], 99.5]),
        "too low": answer(request, [*scores[1:], -1e9]),
    }
    if FAULT in wrong and n_batches == 2:
        say(wrong[FAULT])
        continue
    if FAULT == "nan":
        scores = [float("nan"), float("inf"), None, None, *scores[4:]]
        say(answer(request, scores, why=[None, None, None, "no words", *[None] * len(scores[4:])]))
    elif FAULT == "reasons with colours":
        why = ["\ud800", "two\nlines", "\x1b[31mred", "", *[None] * len(scores[4:])]
        say(answer(request, [None] * 4 + scores[4:], why=why))
    elif FAULT == "cut":
        say(answer(request, scores, truncated=[len(row["output"]) > 3 for row in rows]))
    elif FAULT == "everything":
        print("\n".join(json.dumps(row, sort_keys=True) for row in rows), file=sys.stderr)
        sys.exit(1)
    elif FAULT == "one null":
        say(answer(request, [None if row["references"] == ["?"] else 1.0 for row in rows]))
    elif FAULT == "rounded":
        say(answer(request, [1.0000004] * len(rows)))
    elif FAULT == "place":
        said = float(os.environ["CUSTODES_BATCH"]) + 1000 * len(os.environ["CUSTODES_DEVICE"])
        say(answer(request, [said] * len(rows)))
    else:
        say(answer(request, scores))
