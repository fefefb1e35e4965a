"""Biases of one judge (order, length, failures), and the joint accuracy of several judges."""
