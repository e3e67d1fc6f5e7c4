icestream chek graph.yaml
