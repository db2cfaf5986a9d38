from .dp_fleet import DpFleet as DpFleet
from .dp_fleet import DpJob as DpJob
from .dp_fleet import fits_fleet as fits_fleet
from .fleet import DenseFleet as DenseFleet
from .fleet import Job as Job
from .layer_fleet import LayerFleet as LayerFleet
