from .laboratory.experiments import attacked as attacked
