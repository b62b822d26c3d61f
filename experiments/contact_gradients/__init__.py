"""Contact gradients of many engines beside the derivative of the exact motion.

`problems` are motions as plain data (`scene`), their answers computed event by event in fifty digits (`exact`, `chain`)
and once more by steps (`second_way`). `peers` has an engine in each file; `measure` compares, `page` and `table`
show. `python experiments/contact_gradients` does it all.
"""
