"""LLM judges: pairwise verdicts, scores or labels of outputs.

`run.judge` works in four steps. The plan (`plan`, with `judge`, `prompt`, `examples` and `probes`) holds every
question, each with its request. Requests are sent within limits of rate and cost, and each reply is stored when it
arrives. The modules are `requests`, `querying`, `dispatch`, `client`, `clients`, `batch` and `cost`. Replies
(`replies`) are parsed again in each run. Tables (`tables`) hold verdicts, ratings or labels, outcomes of probes,
failures and cost.
"""
