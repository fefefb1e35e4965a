"""LLM judges: which of two outputs is better, or how good one is.

`run.judge` takes four steps. The plan (`plan`, with `judge`, `prompt` and `examples`) holds every question with its
request. Requests (`requests`, `asking`, `dispatch`, `client`, `clients`, `batch`) are sent within limits of rate and
cost (`cost`), and each reply is stored in the cache (`cache`) as it comes. Replies (`replies`, `reply_json`) are read
in each run. Tables (`tables`) hold verdicts, ratings or labels
(`label_answers`), failures and cost.
"""
