echo 'print("hello")' >my_stage.py
cat >graph.yaml <<'END'
stages:
  mine:
    program: ./my_stage.py
END
icestream check graph.yaml
