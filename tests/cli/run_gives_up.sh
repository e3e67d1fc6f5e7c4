printf '#!/bin/sh\nexit 1\n' >stage.sh
chmod +x stage.sh
echo 'stages: {mine: {program: ./stage.sh}}' >graph.yaml
icestream run graph.yaml --session session --restarts 1 2>message
code=$?
grep -v '^mine ' message >&2 # progress comes when it comes
exit $code
