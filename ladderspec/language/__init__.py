"""Tree -> Spec: the fields of the language, and the messages about wrong ones."""
