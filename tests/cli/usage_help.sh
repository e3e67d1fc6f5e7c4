icestream --help
