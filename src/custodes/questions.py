"""Every question, in the order of the story; a new one is a file with its function and a line below.

The function has the name of the question, its result the same name with a capital.
"""

QUESTIONS = {
    "check": "custodes.evaluate.check",
    "agreement": "custodes.evaluate.agreement.agreement",
    "favoritism": "custodes.evaluate.favoritism",
    "ranking": "custodes.evaluate.ranking",
    "verdict": "custodes.evaluate.verdict",
    "correction": "custodes.evaluate.correction",
    "protocol": "custodes.evaluate.protocol.protocol",
    "plan": "custodes.evaluate.protocol.plan",
    "complementarity": "custodes.evaluate.complementarity.complementarity",
    "ceiling": "custodes.evaluate.ceiling.ceiling",
    "combine": "custodes.combining.combine",
}
"""Name to module."""
