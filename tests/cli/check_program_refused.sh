# The launcher starts only icestream's stages and programs listed in `programs`. A path, a name on PATH or --set cannot
# add one.
printf '#!/bin/sh\ntouch %s/started\n' "$PWD" >stage.sh
chmod +x stage.sh
printf '#!/bin/sh\nexit 1\n' >icestream-silent
chmod +x icestream-silent
export PATH=$PWD:$PATH
cat >graph.yaml <<END
programs: [/bin/true, stage.sh, "/bin/../bin/true"]
stages:
  relative: {program: ./stage.sh}
  bare: {program: stage.sh}
  absolute: {program: $PWD/stage.sh}
  other: {program: /bin/../bin/sh}
  words: {program: "$PWD/stage.sh --option"}
  list: {program: [/bin/true, /bin/true]}
  empty: {program: ""}
  silent: {}
  injected: {program: fake-watcher}
END
icestream check graph.yaml --set injected.program=/bin/sh
echo "exit $?"
# shellcheck disable=SC2016
icestream run graph.yaml --session session --set 'injected.program=$(touch started)' 2>&1 | grep injected
icestream run graph.yaml --session session --set 'injected.program=fake-watcher; touch started' 2>&1 | grep injected
icestream check graph.yaml --set 'programs=[/bin/sh]'
icestream check graph.yaml --set '../../escape.program=/bin/sh' 2>&1 | grep escape
ls
