# The fake stages source this file. They can only describe themselves: describe NAME IN OUT CUMULATIVE PARAMS.
describe() {
  if [ "${1-}" = --describe ]; then
    printf '{"name": "%s", "version": "0.0.1", "summary": "a stage of the tests", "in": "%s", "out": "%s", "cumulative": %s,
 "lanes": 2, "params": [%s]}\n' "$2" "$3" "$4" "$5" "$6"
    exit 0
  fi
  echo "this stage only describes itself" >&2
  exit 1
}
param() { # param NAME TYPE DEFAULT MINIMUM MAXIMUM CHOICES REQUIRED
  printf '{"name": "%s", "type": "%s", "unit": "", "default": %s, "minimum": %s, "maximum": %s, "choices": %s, "count": null, "required": %s, "help": "The %s of it."}' \
    "$1" "$2" "$3" "$4" "$5" "$6" "$7" "$1"
}
