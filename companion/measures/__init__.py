"""What the project measures beside the paper: prompts that tell, replacements, margins."""
