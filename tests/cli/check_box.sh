# A box is compared with the particle: beyond 3 times a warning, beyond 8 times an error.
mkdir data
cat >graph.yaml <<'END'
session: {pixel_size: 1.5}
stages:
  watcher: {directory: data}
  lowpass-picker: {from: watcher, diameter: 150}
  extractor:
    from: lowpass-picker
    box: 300
END
for box in 300 302 800 802 4096; do
  echo "box $box" >&2
  icestream check graph.yaml --set extractor.box=$box >/dev/null
  echo "exit $?" >&2
done
sed -i 's/box: 300/box: 400/' graph.yaml
icestream check graph.yaml >/dev/null
echo "exit $?" >&2
# Without a pixel size of the session, nothing is known of the particle in pixels.
printf 'data_optics\n\nloop_\n_rlnMicrographPixelSize\n1.5\n' >ctf.star
sed -i -e 's/session.*/session: {}/' -e 's/directory: data/directory: data, ctf: ctf.star/' -e 's/box: 400/box: 4096/' graph.yaml
icestream check graph.yaml >/dev/null
