# Finds the libraries that icestream needs. All of them are packages of Debian 12 and Ubuntu 24.04.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
foreach(part libzmq sqlite3 yaml-0.1 jansson libtiff-4 libpng libjpeg fftw3f chealpix libxxhash)
  string(MAKE_C_IDENTIFIER ${part} name)
  pkg_check_modules(${name} REQUIRED IMPORTED_TARGET ${part})
endforeach()
pkg_search_module(openblas REQUIRED IMPORTED_TARGET openblas blas-openblas)
pkg_check_modules(cmocka IMPORTED_TARGET cmocka)
if(ICESTREAM_XGBOOST)
  pkg_check_modules(xgboost IMPORTED_TARGET xgboost)
else()
  set(xgboost_FOUND FALSE)
endif()
if(NOT xgboost_FOUND)
  message(STATUS "XGBoost not found (package libxgboost-dev), or ICESTREAM_XGBOOST is off: crystal-scorer computes features, "
    "and neither trains nor scores")
endif()

if(ICESTREAM_HTTP)
  pkg_check_modules(libmicrohttpd IMPORTED_TARGET libmicrohttpd>=0.9.75)
  pkg_check_modules(zlib IMPORTED_TARGET zlib)
endif()
if(NOT libmicrohttpd_FOUND OR NOT zlib_FOUND)
  set(libmicrohttpd_FOUND FALSE)
  message(STATUS "libmicrohttpd not found (packages libmicrohttpd-dev, zlib1g-dev), or ICESTREAM_HTTP is off: "
    "`icestream serve` says so, and shows no page")
endif()

# OpenMP ships no pkg-config file.
find_library(FFTW3F_THREADS_LIBRARY fftw3f_omp)

# ThreadSanitizer does not know libgomp's barriers and would report every parallel loop.
if(NOT ICESTREAM_SANITIZE MATCHES "thread")
  find_package(OpenMP COMPONENTS C)
endif()

set(ICESTREAM_HAVE_CUDA OFF)
if(ICESTREAM_CUDA)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      # Code for sm_90, and PTX for newer devices.
      set(CMAKE_CUDA_ARCHITECTURES "90" CACHE STRING "CUDA architectures")
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(ICESTREAM_HAVE_CUDA ON)
  else()
    message(STATUS "CUDA not found: the CPU kernels only")
  endif()
endif()
