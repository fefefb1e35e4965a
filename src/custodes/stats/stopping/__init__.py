"""Sequential annotation: stopping rules, interim analyses, replay of the protocol, and power."""
