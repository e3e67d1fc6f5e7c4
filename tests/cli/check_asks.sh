# The stages find out what their parameter tables cannot say: `check` asks each of them, with the line of the graph.
mkdir data
echo text >reference.mrc
printf 'data_\n\nloop_\n_rlnReferenceImage\none.mrc\ntwo.mrc\n' >maps.star
cat >graph.yaml <<'END'
session: {pixel_size: 1.0}
stages:
  watcher: {directory: data, series: "{series}_{time}"}
  ctf-estimator: {from: watcher, defocus: [20000, 5000], box: 511}
  lowpass-picker:
    from: ctf-estimator
    diameter: 100
    threshold: low
    max_stddev_noise: high
  extractor:
    from: lowpass-picker
    box: 151
    downscale_to: 256
    background_radius: 200
  classifier:
    from: extractor
    memory: 0.1
    keep: quality > high
  refiner: {from: extractor, reference: reference.mrc,
            mask: reference.mrc,
            symmetry: Q7, diameter: 100, memory: 0.01, host_memory: 0.1}
  more: {program: refiner, from: extractor, reference: maps.star, classes: 3, diameter: 100}
END
icestream check graph.yaml >&2
echo "exit $?" >&2
# A value that is wrong by itself is said once, and its stage is not asked.
icestream check graph.yaml --set extractor.box=0 2>&1 | grep -c 'extractor'
icestream check graph.yaml --set extractor.box=150 --set extractor.downscale_to=152 2>&1 | grep 'extractor'
# `run` knows the same, and begins no session.
icestream run graph.yaml --session session >run.out 2>run.err
echo "run $?"
icestream check graph.yaml 2>&1 >/dev/null | diff - run.err && echo same
ls
