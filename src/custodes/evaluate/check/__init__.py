"""Is a study sound enough to ask it anything?"""
