# Finds the version. In a checkout the last tag vMAJOR.MINOR.PATCH names it; in a tree without git the file VERSION, which
# scripts/source.sh writes; without both the version that the tree is on its way to.
#   ICESTREAM_VERSION  MAJOR.MINOR.PATCH: of sessions, manual pages and products
#   ICESTREAM_BUILD    the same at a tag, 1.2.3+4.gHASH four commits after tag v1.2.3, and 0.1.0~56.gHASH before any tag.
#                      Debian sorts these three in the order of time.
# As a script it prints ICESTREAM_BUILD: cmake -P cmake/Version.cmake
set(ICESTREAM_NEXT_VERSION 0.1.0)

function(icestream_find_version source)
  set(build "")
  find_program(ICESTREAM_GIT git)
  mark_as_advanced(ICESTREAM_GIT)
  if(ICESTREAM_GIT AND EXISTS ${source}/.git)
    execute_process(COMMAND ${ICESTREAM_GIT} -C ${source} describe --tags --long --abbrev=9 --match "v[0-9]*.[0-9]*.[0-9]*"
      OUTPUT_VARIABLE tag OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(tag MATCHES "^v([0-9]+\\.[0-9]+\\.[0-9]+)-([0-9]+)-(g[0-9a-f]+)$")
      set(build ${CMAKE_MATCH_1})
      if(NOT CMAKE_MATCH_2 EQUAL 0)
        string(APPEND build "+${CMAKE_MATCH_2}.${CMAKE_MATCH_3}")
      endif()
    else()
      execute_process(COMMAND ${ICESTREAM_GIT} -C ${source} rev-list --count HEAD
        OUTPUT_VARIABLE count OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      execute_process(COMMAND ${ICESTREAM_GIT} -C ${source} rev-parse --short=9 HEAD
        OUTPUT_VARIABLE hash OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      if(count AND hash)
        set(build "${ICESTREAM_NEXT_VERSION}~${count}.g${hash}")
      endif()
    endif()
  endif()
  if(NOT build AND EXISTS ${source}/VERSION)
    file(STRINGS ${source}/VERSION build LIMIT_COUNT 1)
    string(STRIP "${build}" build)
    if(NOT build MATCHES "^[0-9]+\\.[0-9]+\\.[0-9]+([~+][0-9]+\\.g[0-9a-f]+)?$")
      message(FATAL_ERROR "${source}/VERSION holds '${build}'; a version such as 1.2.3 or 1.2.3+4.g0123abc is expected")
    endif()
  endif()
  if(NOT build)
    set(build ${ICESTREAM_NEXT_VERSION})
  endif()
  string(REGEX MATCH "^[0-9]+\\.[0-9]+\\.[0-9]+" version "${build}")
  set(ICESTREAM_VERSION ${version} PARENT_SCOPE)
  set(ICESTREAM_BUILD ${build} PARENT_SCOPE)
endfunction()

get_filename_component(source ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
icestream_find_version(${source})
if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  execute_process(COMMAND ${CMAKE_COMMAND} -E echo ${ICESTREAM_BUILD})
endif()
