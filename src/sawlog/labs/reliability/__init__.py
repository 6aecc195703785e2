"""The reliability lab: eight questions, what a policy puts into their packets, and a release gate.

It shows how packets are assembled and nothing else: no model is asked (S1-24).
"""
