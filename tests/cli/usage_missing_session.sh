icestream run graph.yaml
