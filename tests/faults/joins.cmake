# What is said of sessions whose ledgers and products were touched, and of stages that several others feed.
foreach(case lost status retry)
  icestream_add_fault_test(joins_${case} joins.py ${case})
endforeach()
