from .choices import KINDS as KINDS
from .choices import Project as Project
from .write import write_project as write_project
