"""What is wrong with one judge: order, length, failures; and what several judges are worth together."""
