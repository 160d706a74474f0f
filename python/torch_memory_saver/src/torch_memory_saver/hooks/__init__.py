"""The two ways in which torch's memory becomes ours."""
