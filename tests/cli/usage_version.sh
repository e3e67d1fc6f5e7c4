icestream --version
icestream check --help
icestream run --session
