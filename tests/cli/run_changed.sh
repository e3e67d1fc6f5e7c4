# A session continues with the same graph, with changes where a graph may change between runs. Another graph is refused.
printf '#!/bin/sh\nexit 0\n' >stage.sh
chmod +x stage.sh
cat >graph.yaml <<END
programs: [$PWD/stage.sh]
stages:
  mine: {program: $PWD/stage.sh, box: 64, data: $PWD}
END
run() {
  icestream run graph.yaml --session session "$@" 2>message >/dev/null
  echo "exit $?"
  grep -v -e warning -e '^mine ' message
}
run
run --until-idle 3 --set mine.threads=2
run --set mine.data="$PWD/../in/."
run --set mine.box=65
run --set mine.other=1
grep '"run"' session/log/plan.json
