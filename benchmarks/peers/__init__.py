"""Other libraries that keep an agent's session, driven through the same workload.

Each is used as its own users do: one durable append for what they would write as one. What is not
installed is named and left out; `make bench-peers` installs all that are known here.
"""
