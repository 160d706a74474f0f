"""What the wheels of this repository share: building, checking and placing the native files."""
