: >graph.yaml
icestream check graph.yaml
