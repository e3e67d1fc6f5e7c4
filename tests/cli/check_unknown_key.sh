mkdir data
cat >graph.yaml <<'END'
session: {pixel_size: 1.0}
stages:
  fake-watcher: {directory: data, patern: "*.tif"}
  fake-picker:
    from: fake-watcher
    diameter: 100
    qwertyuiop: 3
END
icestream check graph.yaml
