# A program from elsewhere is asked only where it says that it knows --check; its answer must have the right form.
mkdir data
cat >mine <<'END'
#!/bin/sh
case $1 in
--describe) printf '{"name": "mine", "in": "micrograph", "params": [{"name": "speed", "type": "int"}]%s}\n' "$(cat "$0.says")" ;;
--check)
  cp "$2" "$0.file"
  cat "$0.answer"
  exit "$(cat "$0.exit")"
  ;;
esac
END
chmod +x mine
cat >graph.yaml <<END
session: {pixel_size: 1.5, voltage: 200, transport: ipc}
programs: [$PWD/mine]
stages:
  watcher: {directory: data}
  other:
    program: $PWD/mine
    from: watcher
    speed: 7
END
try() { # LABEL SAYS ANSWER EXIT
  echo "$1" >&2
  echo "$2" >mine.says
  echo "$3" >mine.answer
  echo "$4" >mine.exit
  rm -f mine.file
  icestream check graph.yaml >/dev/null
  echo "exit $?" >&2
  [ ! -e mine.file ] || python3 -c 'import json, sys; print(json.dumps(json.load(open("mine.file")), sort_keys=True))' >&2
}
try 'not asked' '' '[{"key": "speed", "level": "error", "message": "never seen"}]' 2
try 'an error' ', "check": true' '[{"key": "speed", "level": "error", "message": "speed is 7: at most 5"}]' 2
try 'a warning' ', "check": true' '[{"key": "", "level": "warning", "message": "old firmware"}]' 0
try 'of the session' ', "check": true' '[{"key": "voltage", "level": "warning", "message": "voltage is 200"}]' 0
try 'nothing' ', "check": true' '[]' 0
try 'no answer' ', "check": true' '[]' 1
try 'nonsense' ', "check": true' 'yes' 0
try 'another level' ', "check": true' '[{"key": "speed", "level": "fatal", "message": "bad"}]' 2
