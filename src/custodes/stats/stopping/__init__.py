"""When to stop asking people: rules, repeated looks, replays of the protocol, power."""
