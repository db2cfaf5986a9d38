from .catalogue import scenario_sentences as scenario_sentences
from .noise import on_delta as on_delta
