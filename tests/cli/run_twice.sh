# The stage starts a second launcher on the same session, which is refused.
cat >stage.sh <<'END'
#!/bin/sh
[ "$1" = --instance ] || exit 1
icestream run graph.yaml --session session 2>message >/dev/null
echo "exit $?" >>message
icestream status --session session >running
END
chmod +x stage.sh
printf 'programs: [%s]\nstages: {mine: {program: %s}}\n' "$PWD/stage.sh" "$PWD/stage.sh" >graph.yaml
icestream run graph.yaml --session session >/dev/null
echo "exit $?"
grep -v -e warning message
head -1 running
icestream status --session session | head -1
