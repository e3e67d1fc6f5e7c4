# Installs what a stage in C outside this tree needs: the public headers (tests/common/check_architecture.sh says what they
# may include), the library, and files that tell CMake and pkg-config how to use them.
if(ICESTREAM_SANITIZE)
  return() # nobody installs such a build
endif()

set(sdk_headers ${CMAKE_INSTALL_INCLUDEDIR}/icestream)
foreach(header device.h files.h log.h memory.h status.h edges/item.h formats/image.h formats/image_formats.h harness/params.h
    harness/stage.h)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${CMAKE_SOURCE_DIR}/common/${header} DESTINATION ${sdk_headers}/common/${folder})
endforeach()
install(FILES $<TARGET_FILE:icestream-common> DESTINATION ${CMAKE_INSTALL_LIBDIR} RENAME libicestream-stage.a)

# Both files find the prefix from where they lie, so that an installation may be moved.
set(sdk_config ${CMAKE_INSTALL_LIBDIR}/cmake/icestream)
set(sdk_pc ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(top ${CMAKE_BINARY_DIR}/any/prefix)
file(RELATIVE_PATH ICESTREAM_FROM_CONFIG ${top}/${sdk_config} ${top})
file(RELATIVE_PATH ICESTREAM_FROM_PC ${top}/${sdk_pc} ${top})

# The library is static, so programs name the libraries below it.
set(ICESTREAM_PACKAGES libzmq sqlite3 yaml-0.1 jansson libtiff-4 libpng libjpeg fftw3f libxxhash)
if(libpq_FOUND)
  list(APPEND ICESTREAM_PACKAGES libpq)
endif()
set(ICESTREAM_FLAGS "")
set(ICESTREAM_LIBRARIES "")
if(FFTW3F_THREADS_LIBRARY AND OpenMP_C_FOUND)
  list(APPEND ICESTREAM_LIBRARIES -lfftw3f_omp)
endif()
if(OpenMP_C_FOUND)
  list(APPEND ICESTREAM_FLAGS -fopenmp)
endif()
if(ICESTREAM_HAVE_CUDA)
  list(APPEND ICESTREAM_LIBRARIES -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt -ldl -lstdc++)
endif()
list(APPEND ICESTREAM_LIBRARIES -lpthread -lm)

configure_file(${CMAKE_CURRENT_LIST_DIR}/icestream-config.cmake.in ${CMAKE_BINARY_DIR}/sdk/icestream-config.cmake @ONLY)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/sdk/icestream-config-version.cmake VERSION ${PROJECT_VERSION}
  COMPATIBILITY SameMinorVersion)
string(REPLACE ";" " " ICESTREAM_PACKAGES "${ICESTREAM_PACKAGES}")
string(REPLACE ";" " " ICESTREAM_FLAGS "${ICESTREAM_FLAGS}")
string(REPLACE ";" " " ICESTREAM_LIBRARIES "${ICESTREAM_LIBRARIES}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/icestream.pc.in ${CMAKE_BINARY_DIR}/sdk/icestream.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/sdk/icestream-config.cmake ${CMAKE_BINARY_DIR}/sdk/icestream-config-version.cmake
  DESTINATION ${sdk_config})
install(FILES ${CMAKE_BINARY_DIR}/sdk/icestream.pc DESTINATION ${sdk_pc})

install(FILES python/icestream.py DESTINATION ${CMAKE_INSTALL_DATADIR}/icestream/python)
install(DIRECTORY examples/stage-c DESTINATION ${CMAKE_INSTALL_DATADIR}/icestream/examples)
install(DIRECTORY examples/stage-python DESTINATION ${CMAKE_INSTALL_DATADIR}/icestream/examples USE_SOURCE_PERMISSIONS
  PATTERN "__pycache__" EXCLUDE)
