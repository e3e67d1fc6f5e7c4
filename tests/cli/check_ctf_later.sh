# The table of CTF values need not be there yet; its folder must.
mkdir data tables
cat >graph.yaml <<'END'
session: {pixel_size: 1.5}
stages:
  watcher: {directory: data, ctf: tables/ctf.star}
END
icestream check graph.yaml >plan
echo "exit $?"
grep 'ctf:' plan
sed -i 's/tables/missing/' graph.yaml
icestream check graph.yaml
