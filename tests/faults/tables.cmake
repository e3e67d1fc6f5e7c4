# Tables with broken cells, names that fit several files, and watched folders full of links, holes and namesakes.
icestream_add_script_test(faults_ctf_paths LABELS faults pipeline
  COMMAND ${ICESTREAM_TEST_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/ctf_paths.py)
icestream_add_fault_test(cells cells.py)
icestream_add_fault_test(warnings warnings.py)
icestream_add_fault_test(warnings_files warnings_files.py)
foreach(case links tail_first)
  icestream_add_script_test(faults_${case} LABELS faults pipeline
    COMMAND ${ICESTREAM_TEST_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/${case}.py)
endforeach()
foreach(case two_sessions pictures same_names)
  icestream_add_fault_test(${case} ${case}.py)
endforeach()
