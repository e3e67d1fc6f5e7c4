icestream mark --session nowhere mov_1
icestream mark --session nowhere --keep --reject mov_1
icestream mark --session nowhere --keep
icestream mark --session nowhere --keep --classes 1,3
icestream mark --session nowhere --keep --iteration 8
icestream mark --session nowhere --keep --iteration 8 --classes 1 mov_1
icestream mark --session nowhere --keep --iteration eight --classes 1
icestream mark --session nowhere --reject --stage classifier mov_1
icestream mark --keep mov_1
icestream mark --session nowhere --keep mov_1
