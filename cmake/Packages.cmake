# What cpack makes of a build: a Debian package, and a tarball that runs from any folder.
#   cpack --config build/cpu/CPackConfig.cmake -G "DEB;TGZ" -B build/packages
# Needs dpkg-dev, whose dpkg-shlibdeps finds the packages of the shared libraries.
if(ICESTREAM_SANITIZE)
  return() # nobody installs such a build
endif()
set(CPACK_PACKAGE_NAME icestream)
set(CPACK_PACKAGE_VENDOR "the icestream developers")
set(CPACK_PACKAGE_CONTACT "the icestream developers <icestream@example.org>" CACHE STRING
  "Who answers for the packages: NAME <ADDRESS>")
set(CPACK_PACKAGE_VERSION ${ICESTREAM_BUILD})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "streaming cryo-EM beside the microscope")
set(CPACK_PACKAGE_DESCRIPTION_FILE ${CMAKE_SOURCE_DIR}/packaging/description.txt)
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_RESOURCE_FILE_README ${CMAKE_SOURCE_DIR}/README.md)
set(CPACK_PACKAGE_FILE_NAME icestream-${ICESTREAM_BUILD}-linux-x86_64)
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
# What differs between the two, and what Debian wants besides.
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/packaging/each.cmake)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/packaging/debian.cmake)
set(CPACK_ICESTREAM_PACKAGING ${CMAKE_SOURCE_DIR}/packaging)
set(CPACK_ICESTREAM_SOURCE ${CMAKE_SOURCE_DIR})

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3-zmq")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "relion, postgresql")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/packaging/postinst)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
