from .derived import names_of as names_of
from .derived import numbers_of as numbers_of
from .pooling import Doubted as Doubted
from .pooling import Measured as Measured
from .pooling import measure as measure
from .words import MetricWords as MetricWords
from .words import metric_words as metric_words
from .words import said_by as said_by
