# Makes manual pages and bash completion. Each program prints them from its own tables (--manual FORM). The target
# `docs` writes docs/parameters.md in the same way.
add_custom_target(docs COMMAND ${CMAKE_SOURCE_DIR}/scripts/parameters.sh ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} --write
  COMMENT "docs/parameters.md" VERBATIM)
add_dependencies(docs programs)
if(ICESTREAM_SANITIZE)
  return() # nobody installs such a build
endif()

get_target_property(programs programs MANUALLY_ADDED_DEPENDENCIES)
set(manuals)
foreach(program ${programs})
  set(page ${CMAKE_BINARY_DIR}/man/${program}.1)
  set(completion ${CMAKE_BINARY_DIR}/completions/${program})
  add_custom_command(OUTPUT ${page} ${completion}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/man ${CMAKE_BINARY_DIR}/completions
    COMMAND $<TARGET_FILE:${program}> --manual man > ${page}
    COMMAND $<TARGET_FILE:${program}> --manual completion > ${completion}
    DEPENDS ${program} COMMENT "Manual page and completion of ${program}" VERBATIM)
  list(APPEND manuals ${page} ${completion})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${completion} DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions)
endforeach()
add_custom_target(manuals ALL DEPENDS ${manuals})
