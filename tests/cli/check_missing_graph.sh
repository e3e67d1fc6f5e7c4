icestream check nothing.yaml
