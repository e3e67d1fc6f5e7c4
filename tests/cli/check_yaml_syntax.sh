printf 'session: {pixel_size: 1.0}\nstages:\n  fake-watcher: {directory: data\n  fake-picker: {}\n' >graph.yaml
icestream check graph.yaml
