# What a session needs of its machine goes away: sockets, instance files, descriptors, room for files.
foreach(case logout cleaner elsewhere instances stranger)
  icestream_add_fault_test(sockets_${case} sockets.py ${case})
endforeach()
foreach(case files size stdio names)
  icestream_add_fault_test(limits_${case} limits.py ${case})
endforeach()

# Every call of one stage fails once: a few of them each time, all of them in the long tests.
icestream_add_fault_test(sweep_stage sweep.py files extractor 12)
icestream_add_fault_test(sweep_session sweep.py pipeline extractor 3)
foreach(stage extractor lowpass-picker)
  icestream_add_fault_test(sweep_stage_${stage}_long sweep.py files ${stage} TIMEOUT 3600 LABELS long)
  icestream_add_fault_test(sweep_session_${stage}_long sweep.py pipeline ${stage} 100 TIMEOUT 3600 LABELS long)
endforeach()
