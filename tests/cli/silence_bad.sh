icestream silence --session nowhere disk
icestream silence --session nowhere --for 60 --clear disk
icestream silence --session nowhere --for 60
icestream silence --session nowhere --until noon disk
icestream silence --session nowhere --until 2001-01-01T00:00Z disk
icestream silence --session nowhere --for 60 disk
icestream silence --for 60 disk
