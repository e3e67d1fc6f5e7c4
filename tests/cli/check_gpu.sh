# The message of a build with CUDA names the number of GPUs instead.
mkdir data
cat >graph.yaml <<'END'
session: {pixel_size: 1.0}
stages:
  fake-watcher: {directory: data}
  fake-picker: {from: fake-watcher, diameter: 100, method: log, gpu: some}
  other: {program: fake-picker, from: fake-watcher, diameter: 100, method: log, device: tpu}
  third: {program: fake-picker, from: fake-watcher, diameter: 100, method: log, gpu: [900, 901]}
END
icestream check graph.yaml 2>&1 | sed -e 's/this build is for the CPU only.*/TOO MANY/' -e 's/901 is asked for.*/TOO MANY/' >&2
exit "${PIPESTATUS[0]}"
