mkdir data
cat >graph.yaml <<'END'
session:
  pixel_size: 1.0
  notify: notify.sh
  defocus: [2.2, 0.8]
  alarms: [disk=5, dsk=5, trouble=3, picks=never, failing.for=60, rejecting=off]
stages:
  fake-watcher: {directory: data}
END
icestream check graph.yaml
for value in /bin /nowhere/notify "$PWD/graph.yaml"; do
  icestream check graph.yaml --set session.notify="$value" 2>&1 | grep notify
done
for value in 2 '[1,2,3]' '[a,2]' '[-1,2]' '[nan,2]'; do
  icestream check graph.yaml --set session.defocus="$value" 2>&1 | grep defocus
done
icestream check graph.yaml --set session.notify=/bin/true --set 'session.defocus=[0.8,2.2]' --set 'session.alarms=[disk=5]' >&2
