"""Glass ceiling: how well metrics predict human ratings."""
