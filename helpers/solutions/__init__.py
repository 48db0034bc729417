"""Solutions of the exercises, apart from the notebooks: `nbNN.py` holds the dict `SOLUTIONS` of notebook NN."""
