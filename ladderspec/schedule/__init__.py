"""Graph -> plan: phases, what is carried, and why."""
