echo 'session: {pixel_size: 1.0}' >graph.yaml
icestream check graph.yaml
