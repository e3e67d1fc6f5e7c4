# The n-th call of one kind fails, for every n. Sanitizers replace the same calls.
if(NOT ICESTREAM_SANITIZE)
  icestream_add_test(test_sweep_parsers LABELS faults SOURCES test_sweep_parsers.c nth_call.c
    LIBRARIES icestream-launcher icestream-test-scratch PkgConfig::libtiff_4 PkgConfig::libjpeg ${CMAKE_DL_LIBS})
endif()
