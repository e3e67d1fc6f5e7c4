# Processes that die, hang or are brought down by an item.
icestream_add_fault_test(kills kills.py)
icestream_add_fault_test(kills_long kills.py 20 LABELS long TIMEOUT 1800)
icestream_add_fault_test(gives_up gives_up.py)
icestream_add_fault_test(hang hang.py)
icestream_add_fault_test(hang_long hang.py 60 LABELS long TIMEOUT 600)
icestream_add_fault_test(reconcile reconcile.py)
