# Rules on columns that no item will have leave nothing out: a warning, with what was probably meant.
mkdir data
printf 'data_micrographs\n\nloop_\n_rlnMicrographName #1\n_rlnDefocusU #2\n_rlnCtfIceFraction #3\na.mrc 10000 0.2\n' >ctf.star
cat >graph.yaml <<'END'
session: {pixel_size: 1.5}
stages:
  watcher: {directory: data, reject_if: rlnCtfMaxResolution > 8}
  ctf-estimator: {from: watcher, reject_if: "rlnCtfMaxResolution > 8, icestreamTiltAngle > 10"}
  lowpass-picker:
    from: ctf-estimator
    diameter: 150
    reject_if: ["rlnCtfMaxResolutoin > 8", "picks.count < 10", rlnCtfFigureOfMerit < 0.1]
END
icestream check graph.yaml >/dev/null
echo "exit $?" >&2
echo "with a table" >&2
icestream check graph.yaml --set watcher.ctf=ctf.star --set 'watcher.reject_if=rlnCtfIceFractoin > 1' \
  --set 'ctf-estimator.reject_if=rlnCtfIceFraction > 1' >/dev/null
echo "exit $?" >&2
