printf '#!/bin/sh\nexit 1\n' >stage.sh
chmod +x stage.sh
printf 'programs: [%s]\nstages: {mine: {program: %s}}\n' "$PWD/stage.sh" "$PWD/stage.sh" >graph.yaml
icestream run graph.yaml --session session --restarts 1 2>message
code=$?
grep -v '^mine ' message >&2 # progress lines appear at any time
exit $code
