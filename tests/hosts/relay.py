"""A relay before PostgreSQL that loses answers: the hosts speak TLS with it, and it speaks with the server."""

import select
import socket
import ssl
import threading

SSL_REQUEST = b"\0\0\0\x08\x04\xd2\x16\x2f"


class Relay:
    """Listens on the rig's address. swallow(count): the answers of the next COMMITs are lost: the server has done what
    they say, and the connection ends. lost: how many were."""

    def __init__(self, world, database):
        self.server_port, self.lost, self.left = database.port, 0, 0
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(f"{database.home}/data/server.crt", f"{database.home}/data/server.key")
        self.listener = socket.create_server((world.address, 0))
        self.url = database.url.replace(f":{database.port}/", f":{self.listener.getsockname()[1]}/")
        self.lock = threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def swallow(self, count):
        with self.lock:
            self.left = count

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        server = None
        try:
            if client.recv(8, socket.MSG_WAITALL) != SSL_REQUEST:
                return
            client.sendall(b"S")
            client = self.tls.wrap_socket(client, server_side=True)
            server = socket.create_connection(("127.0.0.1", self.server_port))
            self.carry(client, server)
        except OSError:
            pass
        finally:
            client.close()
            if server:
                server.close()

    def carry(self, client, server):
        while True:
            ready = [client] if client.pending() else select.select([client, server], [], [])[0]
            for one in ready:
                content = one.recv(1 << 16)
                if not content:
                    return
                if one is server:
                    client.sendall(content)
                    continue
                server.sendall(content)
                if b"COMMIT" in content and self.loses():
                    server.recv(1 << 16)  # the answer: it is done
                    return

    def loses(self):
        with self.lock:
            if self.left == 0:
                return False
            self.left, self.lost = self.left - 1, self.lost + 1
            return True
