# Tests sessions that run unattended: changes from outside, and input without end. These are whole sessions, so they
# have the label `pipeline`, which sanitizer builds leave out.
# The preload libraries stand between a program and the system: they are loaded before the system's own.
foreach(fault clock inotify space)
  add_library(preload_${fault} MODULE preload_${fault}.c)
  target_link_libraries(preload_${fault} PRIVATE icestream-options ${CMAKE_DL_LIBS})
  set_target_properties(preload_${fault} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endforeach()
foreach(case clock blind logs away)
  icestream_add_script_test(faults_${case} LABELS faults pipeline COMMAND ${ICESTREAM_TEST_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/${case}.py)
endforeach()
icestream_add_fault_test(names names.py)
foreach(case clock blind names)
  icestream_add_fault_test(${case}_whole alone_whole.py ${case})
endforeach()
icestream_add_script_test(faults_space LABELS faults pipeline COMMAND ${ICESTREAM_TEST_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/space.py)
icestream_add_script_test(faults_ten_thousand LABELS faults pipeline TIMEOUT 240
  COMMAND ${ICESTREAM_TEST_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/flood.py start 10000)
foreach(order oldest newest)
  icestream_add_script_test(faults_faster_${order} LABELS faults pipeline
    COMMAND ${ICESTREAM_TEST_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/flood.py faster ${order})
endforeach()
icestream_add_script_test(faults_faster_blind LABELS faults pipeline
  COMMAND ${ICESTREAM_TEST_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/flood.py faster newest 4 blind)
icestream_add_script_test(faults_faster_long LABELS faults pipeline long TIMEOUT 900
  COMMAND ${ICESTREAM_TEST_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/flood.py faster newest 600)
icestream_add_fault_test(owners owners.py)
icestream_add_fault_test(systemd systemd.py)
icestream_add_fault_test(soak soak.py 30 TIMEOUT 2400 LABELS long)
