"""Biases of one judge: order, length, failures; and the accuracy of several judges together."""
