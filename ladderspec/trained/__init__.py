"""What one does with a trained network: store, open, evaluate, lesion, generate."""
