"""What is raised for wrong arguments, and that the message names the argument."""
