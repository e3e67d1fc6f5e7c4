# A replay into a session that was begun otherwise is refused, and nothing is left in it.
mkdir data recorded
touch recorded/a.mrc
cat >stage.sh <<'END'
#!/bin/sh
[ "$1" = --describe ] && echo '{"name": "watcher", "version": "0", "summary": "a watcher of the tests", "in": "",
 "out": "micrograph", "cumulative": false, "source": true, "lanes": 1, "params": [{"name": "directory", "type": "path",
 "help": "The folder."}]}'
exit 0
END
chmod +x stage.sh
cat >graph.yaml <<END
programs: [$PWD/stage.sh]
session: {pixel_size: 1}
stages:
  watcher: {program: $PWD/stage.sh, directory: data}
END
icestream run graph.yaml --session session >/dev/null 2>message
echo "exit $?"
icestream replay recorded graph.yaml --session session 2>message
echo "exit $?"
cat message
ls session
# Neither does a session begin inside the recording, whether its folder is there or not.
mkdir recorded/mine
for inside in recorded/mine recorded/new/session; do
  icestream replay recorded graph.yaml --session "$inside" 2>message
  echo "exit $?"
  cat message
done
find recorded | sort
