"""Scene -> text: one small file per format."""
