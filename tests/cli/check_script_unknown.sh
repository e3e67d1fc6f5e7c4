mkdir data
printf '#!/bin/sh\nexit 1\n' >my_stage.sh
chmod +x my_stage.sh
cat >graph.yaml <<END
session: {pixel_size: 1.0}
programs: [$PWD/my_stage.sh]
stages:
  fake-watcher:   {directory: data}
  fake-picker:    {from: fake-watcher, method: log, diameter: 100, threads: 1}
  mine:           {from: fake-picker, program: $PWD/my_stage.sh, anything: goes, threads: 1}
  fake-extractor: {from: mine, threads: 1}
END
icestream check graph.yaml
