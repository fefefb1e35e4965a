"""How much of people's judgement metrics can predict, and the parts of that question."""
