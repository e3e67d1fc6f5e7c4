# Read by cpack before each kind of package. The units of systemd name the program by its absolute path, so each kind
# says where its files will lie (pipelines/CMakeLists.txt reads this).
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(ENV{ICESTREAM_FINAL_PREFIX} /usr)
else()
  set(ENV{ICESTREAM_FINAL_PREFIX} /opt/icestream)
endif()
