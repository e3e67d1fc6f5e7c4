# icestream_add_fuzz(NAME SOURCES FILE... [PACKAGES PKG...] [CORPUS DIR] [PARTLY])
#
# Builds the libFuzzer program fuzz-NAME from exactly these sources (paths from the top folder). Adds a CTest entry that
# makes ICESTREAM_FUZZ_RUNS mutations, in ICESTREAM_FUZZ_SECONDS seconds at most, and has the label `fuzz`.
# PACKAGES are names from pkg_check_modules (libtiff_4, jansson …). PARTLY: the target calls only part of its sources;
# functions that only the rest calls may be missing at link time.
# Clang compiles the sources with the address and undefined sanitizers, whichever compiler builds the rest. Targets that
# name the same source share its object.
# Seeds are read from tests/fuzz/corpus/NAME and from CORPUS. The former holds named seeds and inputs that
# tests/fuzz/long.py kept from long runs. tests/fuzz/run.sh says how a test runs.
# A crash leaves its input as tests/fuzz/crash-* in the build folder. To run it once:
#   build/cpu/tests/fuzz/fuzz-NAME FILE
set(ICESTREAM_FUZZ_SECONDS 10 CACHE STRING "Seconds that each fuzz target runs as a test, at most")
set(ICESTREAM_FUZZ_RUNS 30000 CACHE STRING "Mutations that each fuzz target makes as a test")

set(ICESTREAM_CAN_FUZZ OFF)
if(ICESTREAM_FUZZ AND NOT ICESTREAM_SANITIZE)
  find_program(ICESTREAM_CLANG NAMES clang clang-20 clang-19 clang-18 clang-17 clang-16 clang-15 clang-14)
  if(ICESTREAM_CLANG)
    set(probe ${CMAKE_BINARY_DIR}/CMakeFiles/fuzz-probe.c)
    file(WRITE ${probe} "#include <stddef.h>\n#include <stdint.h>\nint LLVMFuzzerTestOneInput(const uint8_t *d, size_t n) { return (void)d, (void)n, 0; }\n")
    execute_process(COMMAND ${ICESTREAM_CLANG} -fsanitize=fuzzer,address,undefined ${probe} -o ${CMAKE_BINARY_DIR}/CMakeFiles/fuzz-probe
      RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(NOT failed)
      set(ICESTREAM_CAN_FUZZ ON)
    endif()
  endif()
  if(NOT ICESTREAM_CAN_FUZZ)
    message(STATUS "clang with libFuzzer not found (packages clang, libclang-rt-dev): no fuzz targets are built")
  endif()
endif()

set(ICESTREAM_FUZZ_FLAGS -std=gnu11 -O1 -g -fno-omit-frame-pointer -D_GNU_SOURCE -DICESTREAM_VERSION="${PROJECT_VERSION}"
  -DICESTREAM_NO_MULTIVERSION -Wall -Wextra -Werror -Wno-unknown-pragmas -Wno-missing-field-initializers -I${CMAKE_SOURCE_DIR}
  -fsanitize=address,undefined -fno-sanitize-recover=all)

function(icestream_add_fuzz name)
  cmake_parse_arguments(f "PARTLY" "CORPUS" "SOURCES;PACKAGES" ${ARGN})
  if(NOT ICESTREAM_CAN_FUZZ)
    return()
  endif()
  set(kept ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name})
  # Targets share objects, so every object is compiled with the flags of all packages.
  set(include_flags "")
  foreach(package libtiff_4 libpng libjpeg jansson yaml_0_1 sqlite3)
    list(APPEND include_flags ${${package}_CFLAGS})
  endforeach()
  list(REMOVE_DUPLICATES include_flags)
  set(link_flags "")
  foreach(package ${f_PACKAGES})
    list(APPEND link_flags ${${package}_LDFLAGS})
  endforeach()
  if(f_PARTLY)
    list(APPEND link_flags -no-pie -Wl,--unresolved-symbols=ignore-all)
  endif()
  # Every target needs these sources.
  list(APPEND f_SOURCES common/status.c common/text.c)
  list(REMOVE_DUPLICATES f_SOURCES)
  set(objects "")
  foreach(source ${f_SOURCES})
    string(REPLACE "/" "_" object ${source})
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${object}.o)
    # Each object has one rule, however many targets use it.
    get_property(known DIRECTORY PROPERTY icestream_fuzz_objects)
    if(NOT object IN_LIST known)
      set_property(DIRECTORY APPEND PROPERTY icestream_fuzz_objects ${object})
      add_custom_command(OUTPUT ${object}
        COMMAND ${ICESTREAM_CLANG} ${ICESTREAM_FUZZ_FLAGS} -fsanitize=fuzzer-no-link ${include_flags}
          -MD -MF ${object}.d -MT ${object} -c ${CMAKE_SOURCE_DIR}/${source} -o ${object}
        DEPENDS ${CMAKE_SOURCE_DIR}/${source} DEPFILE ${object}.d
        COMMENT "Compiling ${source} for fuzzing" VERBATIM)
    endif()
    list(APPEND objects ${object})
  endforeach()
  set(program ${CMAKE_CURRENT_BINARY_DIR}/fuzz-${name})
  add_custom_command(OUTPUT ${program}
    COMMAND ${ICESTREAM_CLANG} -fsanitize=fuzzer,address,undefined ${objects} ${link_flags} -lm -lpthread -o ${program}
    DEPENDS ${objects} COMMENT "Linking fuzz-${name}" VERBATIM)
  add_custom_target(build-fuzz-${name} ALL DEPENDS ${program})
  math(EXPR limit "${ICESTREAM_FUZZ_SECONDS} + 110")
  icestream_add_script_test(fuzz_${name} LABELS fuzz slow TIMEOUT ${limit}
    COMMAND ${CMAKE_SOURCE_DIR}/tests/fuzz/run.sh ${program} ${ICESTREAM_FUZZ_SECONDS} ${ICESTREAM_FUZZ_RUNS} ${kept} ${f_CORPUS})
endfunction()
