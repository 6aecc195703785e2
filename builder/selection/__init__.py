"""Selection: which candidates come into a packet, stage by stage. Knows neither state nor events.

`select(policy, task, candidates)` is the whole of it; a policy is a list of stages with their
parameters. Everything here is pure: the order of the candidates never matters.
"""
