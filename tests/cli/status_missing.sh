icestream status --session nowhere
mkdir empty
icestream status --session empty
