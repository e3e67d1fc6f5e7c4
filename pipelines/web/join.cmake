# cmake -DOUT=FILE -DMODULES=A;B;… -P join.cmake: joins modules into one script, without indentation and without comments
# that begin a line, which are a seventh of what a browser would fetch.
set(all "")
foreach(module IN LISTS MODULES)
  file(READ ${module} text)
  string(APPEND all "\n${text}")
endforeach()
string(REGEX REPLACE "\n +" "\n" all "${all}")
string(REGEX REPLACE "\n/[*][^*]*[*]+([^/*][^*]*[*]+)*/" "" all "${all}")
string(REGEX REPLACE "\n\n+" "\n" all "${all}")
file(WRITE ${OUT} "${all}")
