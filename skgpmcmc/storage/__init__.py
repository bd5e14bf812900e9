"""Files: arrays in archives, and files that show whether they are whole."""
