printf -- '- watcher\n- picker\n' >graph.yaml
icestream check graph.yaml
