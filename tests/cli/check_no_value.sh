# A key without a value is an error that says what was probably meant.
mkdir data
cat >graph.yaml <<'END'
session: {pixel_size: 1,5, voltage}
stages:
  fake-watcher: {directory: data, patern: , order:newest}
  fake-picker:
    from: fake-watcher
    diameter:
    invrt:true
    threads: ~
    qwertyuiop:
END
icestream check graph.yaml
echo "exit $?"
sed -i -e 's/    invrt:true//' graph.yaml
icestream check graph.yaml
echo "exit $?"
# What --set gives is there.
cat >graph.yaml <<'END'
session: {pixel_size: }
stages:
  fake-watcher: {directory: }
END
icestream check graph.yaml --set session.pixel_size=1.5 --set fake-watcher.directory=data >/dev/null
echo "exit $?"
# A stage without a value in `from` is no source.
cat >graph.yaml <<'END'
session: {pixel_size: 1.5}
stages:
  fake-watcher: {directory: data}
  fake-picker: {diameter: 100, from: }
END
icestream check graph.yaml
echo "exit $?"
