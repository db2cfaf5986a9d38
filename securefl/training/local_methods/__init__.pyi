from .correction import Correction as Correction
from .correction import KeptControls as KeptControls
from .parts.fedprox import FedProx as FedProx
from .parts.scaffold import Scaffold as Scaffold
from .parts.sgd import LocalSgd as LocalSgd
