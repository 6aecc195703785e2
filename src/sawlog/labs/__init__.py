"""The published labs that the builder's stages were first written for, and comparing policies.

A lab is cases with known answers: it runs offline, gives the same bytes each time, and says what
its numbers do not prove.
"""
