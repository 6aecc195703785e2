"""Tests of agents: a recorded session plays the model, and each request is held to the record."""

from sawlog.testing.failures import ReplayFailed as ReplayFailed
from sawlog.testing.failures import RequestBeyond as RequestBeyond
from sawlog.testing.failures import RequestDiffers as RequestDiffers
from sawlog.testing.failures import StepsLeft as StepsLeft
