from .laboratory.experiments import attack_chapters as attack_chapters
