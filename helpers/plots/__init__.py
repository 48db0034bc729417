"""Pictures of the models and of the ladder. A plot takes data and returns a `Picture`; it never measures."""
