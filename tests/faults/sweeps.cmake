# The n-th call of one kind fails, for every n. Sanitizers replace the same calls.
if(NOT ICESTREAM_SANITIZE)
  icestream_add_test(test_sweep_parsers LABELS faults SOURCES test_sweep_parsers.c nth_call.c
    LIBRARIES icestream-launcher icestream-test-scratch PkgConfig::libtiff_4 PkgConfig::libjpeg ${CMAKE_DL_LIBS})
  icestream_add_test(test_sweep_ledger LABELS faults SOURCES test_sweep_ledger.c nth_call.c
    LIBRARIES icestream-test-scratch PkgConfig::sqlite3 ${CMAKE_DL_LIBS} TIMEOUT 900)
  icestream_add_script_test(test_sweep_ledger_long LABELS faults long TIMEOUT 3600
    COMMAND $<TARGET_FILE:test_sweep_ledger> whole)
endif()
