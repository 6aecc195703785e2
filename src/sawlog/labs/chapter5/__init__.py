"""Chapter 5: thirty variants of one repair task, each built into a packet, decided on and graded.

What it shows is the border of a context: what came in, what stayed out and why, what the model's
answer then ran into. It ranks no models.
"""
