# Sessions without a refiner, with one, and with two, as far as the command looks at them.
session() {
  mkdir -p "$1/log" "$1/ledger"
  printf 'session: {pixel_size: 1.0}\nstages: {}\n' >"$1/graph.yaml"
  printf '{"v": 1, "run": 1, "stages": [%s]}\n' "$2" >"$1/log/plan.json"
}
class2d='{"name": "class2d", "kind": "classifier"}'
session classes "$class2d"
session one "$class2d, {\"name\": \"refiner\", \"kind\": \"refiner\"}"
session two '{"name": "coarse", "kind": "refiner"}, {"name": "fine", "kind": "refiner"}'
icestream invert-hand
icestream invert-hand --session nowhere
icestream invert-hand --session classes refiner
icestream invert-hand --session classes
icestream invert-hand --session classes --stage class2d
icestream invert-hand --session one --stage class2d
icestream invert-hand --session one --stage refinery
find . -name changes
icestream invert-hand --session two
