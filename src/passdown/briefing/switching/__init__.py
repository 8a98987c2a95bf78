"""A change of agents: the artifact that stays behind, what starts one, and the prompt after it."""
