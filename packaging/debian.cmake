# Runs after the files of a package have been collected, before it is packed. Debian's policy asks for compressed manual
# pages and for a copyright file and a changelog in the package's folder.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
set(documents ${CPACK_TEMPORARY_DIRECTORY}/usr/share/doc/icestream)
if(NOT EXISTS ${documents})
  message(FATAL_ERROR "${documents} is not there: the package has no documentation")
endif()

file(READ ${CPACK_ICESTREAM_SOURCE}/LICENSE licence)
string(STRIP "${licence}" licence)
string(REGEX REPLACE "\n\n" "\n.\n" licence "${licence}")
string(REPLACE "\n" "\n " licence "${licence}")
configure_file(${CPACK_ICESTREAM_PACKAGING}/copyright.in ${documents}/copyright @ONLY)
# Only examples are written in Python: they are to be copied, and the package does not need Python for them.
file(GLOB scripts ${CPACK_TEMPORARY_DIRECTORY}/usr/share/icestream/examples/stage-python/*.py)
if(scripts)
  file(CHMOD ${scripts} FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endif()
file(REMOVE ${documents}/LICENSE) # its text is in the file copyright

string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC) # of SOURCE_DATE_EPOCH, if that is set
file(WRITE ${documents}/changelog.Debian
  "icestream (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium\n\n"
  "  * Packaged by cpack; CHANGELOG.md lists the changes.\n\n"
  " -- ${CPACK_PACKAGE_CONTACT}  ${now}\n")
file(GLOB pages ${CPACK_TEMPORARY_DIRECTORY}/usr/share/man/man*/*)
execute_process(COMMAND gzip -9nf ${documents}/changelog.Debian ${pages} RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "gzip did not compress the manual pages: ${failed}")
endif()
