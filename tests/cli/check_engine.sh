mkdir data
cat >graph.yaml <<'END'
session:
  pixel_size: 1.0
  engine: pbs
  slurm: [--partition gpu --gres gpu:1, gpu, --partition 'a']
stages:
  fake-watcher: {directory: data}
END
icestream check graph.yaml
icestream check graph.yaml --engine ssh --set session.slurm=--wrap=x
icestream check graph.yaml --engine ssh --set 'session.hosts=[node1,-oProxyCommand=x]' 2>&1 | grep -o 'error: .*ProxyCommand[^;]*' >&2
icestream check graph.yaml --engine slurm --set session.slurm='--partition gpu'
icestream check graph.yaml --engine local --set session.slurm='--partition gpu'
