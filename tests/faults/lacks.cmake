# What a session needs of its machine goes away: sockets, instance files, descriptors, room for files.
foreach(case logout cleaner elsewhere instances)
  icestream_add_fault_test(sockets_${case} sockets.py ${case})
endforeach()
foreach(case files size stdio names)
  icestream_add_fault_test(limits_${case} limits.py ${case})
endforeach()
