# Defines the settings that all targets of the project share.
add_library(icestream-options INTERFACE)
target_compile_definitions(icestream-options INTERFACE _GNU_SOURCE ICESTREAM_VERSION="${PROJECT_VERSION}")
target_compile_options(icestream-options INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2
    -Wformat-truncation=0 -Wno-missing-field-initializers -fno-math-errno -fno-trapping-math -fno-common
    -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=>
  $<$<COMPILE_LANGUAGE:CUDA>:--Werror=all-warnings -Xcompiler=-Wall,-Wextra,-Werror>)
target_include_directories(icestream-options INTERFACE ${CMAKE_SOURCE_DIR})
target_link_libraries(icestream-options INTERFACE Threads::Threads m)
# A program names only the libraries that it calls: the launcher starts where stages lack theirs, and says so.
target_link_options(icestream-options INTERFACE LINKER:--as-needed)
if(OpenMP_C_FOUND)
  target_compile_options(icestream-options INTERFACE $<$<COMPILE_LANGUAGE:C>:${OpenMP_C_FLAGS}>)
  target_link_libraries(icestream-options INTERFACE ${OpenMP_C_LIBRARIES})
else()
  target_compile_options(icestream-options INTERFACE $<$<COMPILE_LANGUAGE:C>:-Wno-unknown-pragmas
    -Wno-unused-parameter>) # a thread count that only a pragma uses
endif()
if(ICESTREAM_HAVE_CUDA)
  target_compile_definitions(icestream-options INTERFACE ICESTREAM_HAVE_CUDA)
endif()
if(ICESTREAM_SANITIZE)
  # Function multiversioning is resolved before the sanitizers' runtimes have started.
  target_compile_definitions(icestream-options INTERFACE ICESTREAM_NO_MULTIVERSION)
  target_compile_options(icestream-options INTERFACE -fsanitize=${ICESTREAM_SANITIZE} -fno-omit-frame-pointer)
  if(ICESTREAM_SANITIZE MATCHES "undefined")
    target_compile_options(icestream-options INTERFACE -fno-sanitize-recover=all)
  endif()
  target_link_options(icestream-options INTERFACE -fsanitize=${ICESTREAM_SANITIZE})
endif()

# icestream_add_stage(NAME SOURCES...): adds the library icestream-stage-NAME (all sources but main.c, for tests) and
# the program icestream-NAME.
function(icestream_add_stage name)
  set(sources ${ARGN})
  list(REMOVE_ITEM sources main.c)
  add_library(icestream-stage-${name} STATIC ${sources})
  target_link_libraries(icestream-stage-${name} PUBLIC icestream-kernels icestream-common)
  add_executable(icestream-${name} main.c)
  target_link_libraries(icestream-${name} PRIVATE icestream-stage-${name})
  add_dependencies(programs icestream-${name})
  install(TARGETS icestream-${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# icestream_add_test(NAME LABELS LABEL... SOURCES FILE... [LIBRARIES LIB...]): adds a cmocka program and its CTest
# entry. Exit code 77 is a skip; the program prints the reason. The target tests_LABEL builds everything that the tests
# with this label run, so that a sanitizer build need not build the whole tree.
function(icestream_add_test name)
  cmake_parse_arguments(t "" "TIMEOUT" "LABELS;SOURCES;LIBRARIES" ${ARGN})
  if(NOT t_TIMEOUT)
    set(t_TIMEOUT 120)
  endif()
  add_executable(${name} ${t_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${t_LIBRARIES} icestream-kernels icestream-common PkgConfig::cmocka)
  add_test(NAME ${name} COMMAND ${name})
  icestream_test_properties(${name} TIMEOUT ${t_TIMEOUT} LABELS ${t_LABELS})
  icestream_test_needs("${t_LABELS}" ${name})
endfunction()

# icestream_add_script_test(NAME LABELS LABEL... COMMAND ...): adds a script as a test, with the same rules.
function(icestream_add_script_test name)
  cmake_parse_arguments(t "" "TIMEOUT" "LABELS;COMMAND" ${ARGN})
  if(NOT t_TIMEOUT)
    set(t_TIMEOUT 120)
  endif()
  add_test(NAME ${name} COMMAND ${t_COMMAND})
  icestream_test_properties(${name} TIMEOUT ${t_TIMEOUT} LABELS ${t_LABELS})
  string(REGEX MATCHALL "TARGET_FILE:[^>]+" named "${t_COMMAND}")
  string(REPLACE "TARGET_FILE:" "" named "${named}")
  icestream_test_needs("${t_LABELS}" ${named})
endfunction()

# icestream_test_needs(LABELS TARGET...): makes tests_LABEL build these targets, because tests with one of these labels
# run them.
function(icestream_test_needs labels)
  foreach(label ${labels})
    if(NOT TARGET tests_${label})
      add_custom_target(tests_${label})
    endif()
    if(ARGN)
      add_dependencies(tests_${label} ${ARGN})
    endif()
  endforeach()
endfunction()

# BIN: folder of this build's programs. SHARED: real data, if it lies beside the checkout.
function(icestream_test_properties name)
  cmake_parse_arguments(t "" "TIMEOUT" "LABELS" ${ARGN})
  if(ICESTREAM_SANITIZE)
    math(EXPR t_TIMEOUT "4 * ${t_TIMEOUT}")
  endif()
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${t_TIMEOUT} LABELS "${t_LABELS}"
    ENVIRONMENT "ICESTREAM_BIN=${CMAKE_BINARY_DIR}/bin;ICESTREAM_SOURCE=${CMAKE_SOURCE_DIR};ICESTREAM_DATA=${CMAKE_SOURCE_DIR}/../shared/data;OMP_WAIT_POLICY=passive;TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/cmake/tsan.supp")
endfunction()
