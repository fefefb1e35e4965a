"""Does a metric still agree with people, well enough and no worse than another?"""
