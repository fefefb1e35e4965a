"""Which of two systems is better by counts: sign tests, errors of decisions and their favour, rankings."""
