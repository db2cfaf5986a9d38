from .layers import layers_of as layers_of
from .sampling import draw_batch as draw_batch
from .step import DpStep as DpStep
from .step import DrawnBatch as DrawnBatch
from .trainer import DpSgdTrainer as DpSgdTrainer
from .trainer import batch_entropy as batch_entropy
from .trainer import check_batch as check_batch
from .ways import Mapped as Mapped
