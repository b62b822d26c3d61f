"""What is to be explained: observations, parameters, priors, loss, and the residuals that follow from them."""
