echo 'print("hello")' >my_stage.py
cat >graph.yaml <<END
programs: [$PWD/my_stage.py]
stages:
  mine:
    program: $PWD/my_stage.py
END
icestream check graph.yaml
