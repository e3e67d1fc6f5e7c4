icestream replay a b --session here --speed fast
