"""Recording what programs send to models and get back, whoever built the requests."""
