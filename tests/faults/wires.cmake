# Bad wires and strangers (these tests need pyzmq).
icestream_add_fault_test(proxy proxy.py)
icestream_add_fault_test(proxy_long proxy.py 0 15 LABELS long TIMEOUT 600)
foreach(case network listen closed)
  icestream_add_fault_test(strangers_${case} strangers.py ${case})
endforeach()
foreach(case paths programs)
  icestream_add_fault_test(strangers_${case} hostile.py ${case})
endforeach()
