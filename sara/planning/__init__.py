"""Planning: what a run would cost with each strategy, from what is known of its prompts. No torch."""
