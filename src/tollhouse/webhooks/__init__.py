"""How we tell others: who wants to know, what there is to tell, and its delivery under a signature."""
