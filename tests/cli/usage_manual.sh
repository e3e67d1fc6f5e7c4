# --manual of the launcher and of a stage: a wrong word, no word.
icestream --manual page
icestream --manual
icestream-watcher --manual page
icestream-watcher --manual
