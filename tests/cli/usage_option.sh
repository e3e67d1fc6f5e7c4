icestream run graph.yaml --sesion here
