"""The web pages of annotators and of the owner of a study."""
