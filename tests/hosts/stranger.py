#!/usr/bin/env python3
"""Speaks to ports of a session without its keys, for some seconds: sends false messages, and listens. Prints
{"tried": ports, "heard": messages that came, "spoke": ports that sent more than a greeting to bare sockets}.

stranger.py SECONDS ADDRESS:PORT..."""

import json
import socket
import sys
import time

import zmq

GREETING = 64  # bytes that ZMTP begins with, before any key is asked for
LIES = (
    {"v": 1, "kind": "hello", "edge": "watcher.0>lowpass-picker", "instance": 0, "token": "t", "seq": 1},
    {"v": 1, "kind": "ack", "edge": "watcher.0>lowpass-picker", "instance": 0, "token": "t", "seq": 1, "verdict": ""},
    {"v": 1, "kind": "join", "name": "stranger", "revision": "", "address": "10.0.0.1", "cores": 64, "gpus": 8},
)


def connect(context, kind, address, keys):
    """keys: (public, secret) of the stranger, who can only guess the session's; None: no encryption."""
    mouth = context.socket(kind)
    mouth.linger = 0
    if keys:
        mouth.curve_publickey, mouth.curve_secretkey = keys
        mouth.curve_serverkey = keys[0]
    mouth.connect(f"tcp://{address}")
    if kind != zmq.PULL:
        for lie in LIES:
            try:
                mouth.send_json(lie, zmq.DONTWAIT)
            except zmq.Again:
                pass
    return mouth


def bare(address):
    """Returns how many bytes a port sends to somebody who greets it and then sends rubbish."""
    host, port = address.rsplit(":", 1)
    found = b""
    with socket.create_connection((host, int(port)), 2) as peer:
        peer.settimeout(1)
        try:
            peer.sendall(b"\xff" + b"\0" * 8 + b"\x7f\x03\0NULL".ljust(55, b"\0") + b"\x04\x26\x05READY" + b"x" * 100)
            while data := peer.recv(4096):
                found += data
        except OSError:
            pass
    return len(found)


def main():
    end, addresses = time.monotonic() + float(sys.argv[1]), sys.argv[2:]
    context, own = zmq.Context(), zmq.curve_keypair()
    ears = [
        connect(context, kind, address, keys)
        for address in addresses
        for kind in (zmq.PULL, zmq.PUSH, zmq.DEALER)
        for keys in (None, own)
    ]
    spoke = sum(bare(address) > GREETING for address in addresses)
    heard = 0
    while time.monotonic() < end:
        heard += sum(bool(ear.poll(0, zmq.POLLIN)) for ear in ears if ear.type != zmq.PUSH)
        time.sleep(0.05)
    print(json.dumps({"tried": len(addresses), "heard": heard, "spoke": spoke}))


main()
