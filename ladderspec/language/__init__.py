"""Tree -> Spec: the words of the language, and what is said when they are wrong."""
