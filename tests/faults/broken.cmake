# Broken files are written once. Tests give them to the readers in process, to the programs, and to a session among good
# micrographs.
set(broken_files ${CMAKE_CURRENT_BINARY_DIR}/broken)
icestream_add_script_test(faults_make_broken LABELS faults
  COMMAND ${ICESTREAM_TEST_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/make_broken.py ${broken_files})
set_tests_properties(faults_make_broken PROPERTIES FIXTURES_SETUP broken)
icestream_add_test(test_broken_files LABELS faults SOURCES test_broken_files.c LIBRARIES icestream-launcher)
set_tests_properties(test_broken_files PROPERTIES FIXTURES_REQUIRED broken)
set_property(TEST test_broken_files APPEND PROPERTY ENVIRONMENT "ICESTREAM_BROKEN=${broken_files}")
icestream_add_script_test(faults_bad_texts LABELS faults pipeline
  COMMAND ${ICESTREAM_TEST_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/bad_texts.py)
icestream_add_fault_test(bad_images bad_images.py)
icestream_add_script_test(faults_series_names LABELS faults pipeline
  COMMAND ${ICESTREAM_TEST_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/series.py names)
icestream_add_script_test(faults_first_file LABELS faults pipeline
  COMMAND ${ICESTREAM_TEST_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/series.py first)
icestream_add_script_test(faults_address_space LABELS faults pipeline TIMEOUT 300
  COMMAND ${ICESTREAM_TEST_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/address_space.py)
foreach(case huge waits)
  icestream_add_script_test(faults_sizes_${case} LABELS faults pipeline TIMEOUT 300
    COMMAND ${ICESTREAM_TEST_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/sizes.py ${case})
endforeach()
icestream_add_script_test(faults_series_killed LABELS faults pipeline
  COMMAND ${ICESTREAM_TEST_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/series.py killed)
