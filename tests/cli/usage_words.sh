icestream check one.yaml two.yaml
