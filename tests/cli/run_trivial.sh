# A stage without work, the orders it gets, and the graph that the session keeps.
cat >stage.sh <<'END'
#!/bin/sh
echo "$1 $2"
env | grep -E '^(OMP_|OPENBLAS_|CUDA_VISIBLE)' | sort
grep -E '"(v|name|instance|replicas|run|pixel_size|number|word|list|until_idle|device|threads)"' "$2"
END
chmod +x stage.sh
cat >graph.yaml <<END
session: {pixel_size: 1.5}
programs: [$PWD/stage.sh]
stages:
  mine:
    program: $PWD/stage.sh
    threads: 3
    number: 0.25
    word: "007"
    list: [1, a b]
END
mkdir run
export XDG_RUNTIME_DIR=$PWD/run
icestream run graph.yaml --session deep/session --until-idle 2.5
echo "exit $?"
cat deep/session/log/mine.0.log deep/session/graph.yaml
ls deep/session
ls run # no sockets are left behind
icestream status --session deep/session --json
icestream retry --session deep/session
