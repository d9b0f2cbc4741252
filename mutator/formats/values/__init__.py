"""Single values: from one type to another, and as text."""
