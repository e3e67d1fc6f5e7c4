# Processes that die, hang or are crashed by an item.
icestream_add_fault_test(kills kills.py)
icestream_add_fault_test(kills_long kills.py 20 LABELS long TIMEOUT 1800)
icestream_add_fault_test(gives_up gives_up.py)
icestream_add_fault_test(hang hang.py)
icestream_add_fault_test(hang_long hang.py 60 LABELS long TIMEOUT 600)
icestream_add_fault_test(reconcile reconcile.py)
icestream_add_fault_test(reread reread.py)
icestream_add_fault_test(verify verify.py)
icestream_add_fault_test(swapped swapped.py)
foreach(case flight done)
  icestream_add_fault_test(replaced_${case} replaced.py ${case})
endforeach()
icestream_add_fault_test(backup backup.py)
if(libpq_FOUND)
  icestream_add_script_test(faults_postgresql LABELS faults pipeline
    COMMAND ${CMAKE_SOURCE_DIR}/tests/common/private_postgresql.sh
      ${ICESTREAM_TEST_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/postgresql.py)
  set_tests_properties(faults_postgresql PROPERTIES FIXTURES_REQUIRED faults PROCESSORS 2)
  set_property(TEST faults_postgresql APPEND PROPERTY ENVIRONMENT "ICESTREAM_FAULTS=${faults_data}")
endif()
foreach(case lost older wal)
  icestream_add_fault_test(repair_${case} repair.py ${case})
endforeach()
add_library(preload_poison MODULE preload_poison.c)
target_link_libraries(preload_poison PRIVATE icestream-options ${CMAKE_DL_LIBS})
set_target_properties(preload_poison PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
icestream_add_fault_test(poison poison.py)
icestream_add_fault_test(memory_killer memory_killer.py one)
icestream_add_fault_test(memory_killer_lanes memory_killer.py lanes)
icestream_add_fault_test(memory_killer_person memory_killer.py person)

# Two sources with equal names of micrographs.
foreach(case join kills classifier series)
  icestream_add_fault_test(sources_${case} sources.py ${case})
endforeach()

# Items that come again in a later revision.
icestream_add_fault_test(changes changes.py)
# Marks by hand, and what the page does.
foreach(case live kills)
  icestream_add_fault_test(marks_${case} marks.py ${case})
endforeach()
icestream_add_fault_test(control control.py $<TARGET_FILE:control_tool>)
icestream_add_fault_test(redo redo.py calm)
icestream_add_fault_test(redo_kills redo.py kills)
icestream_add_fault_test(picked_again picked_again.py calm)
icestream_add_fault_test(picked_again_kills picked_again.py kills)
icestream_add_fault_test(revisions revisions.py calm)
icestream_add_fault_test(revisions_kills revisions.py kills)

# Ledgers of an earlier version.
icestream_add_fault_test(versions versions.py)
