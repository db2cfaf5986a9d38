from .catalogue import stated as stated
from .noise import on_delta as on_delta
