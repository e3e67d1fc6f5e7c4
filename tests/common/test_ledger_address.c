/* Tests how the address of a server for ledgers is read. */
#include <stdlib.h>
#include <string.h>

#include "common/edges/ledger_address.h"
#include "tests/common/scratch.h"

/* A wrong address may hold a password, which no message repeats. */
static void messages_hold_no_password(void **state) {
    (void)state;
    struct ledger_url url;
    struct err err = {0};
    static const char *const wrong[] = {"postgresql://me:hidden@localhost/db",
                                        "postgresql://localhost/db?password=hidden",
                                        "postgres://hidden@localhost/db",
                                        "postgresql://me@hidden@localhost:5/db",
                                        "postgresql://localhost/hid den",
                                        "postgresql://localhost/",
                                        "postgresql:///db",
                                        "postgresql://a,hidden/db",
                                        "postgresql://localhost/db?hidden=1",
                                        "postgresql://localhost:hidden/db",
                                        "postgresql://me/hidden@localhost/db",
                                        "postgresql://me&hidden@localhost/db",
                                        "postgresql://localhost/db#hidden"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(ledger_url_read(wrong[i], &url, &err), STATUS_BAD_ARGUMENT);
        assert_null(strstr(err.message, "hid"));
        assert_true(strlen(err.message) > 0);
    }
    static const char *const right[] = {"postgresql://localhost/db",
                                        "postgresql://me@server.site.org:5433/db",
                                        "postgresql://[::1]:5432/db",
                                        "postgresql://me@/db?host=/run/postgresql",
                                        "postgresql://server/db?sslrootcert=/etc/ca.pem&connect_timeout=3",
                                        "postgresql://me.2%40site@127.0.0.1/db",
                                        "postgresql://127.evil.org/db"};
    static const bool loopback[] = {true, false, true, true, false, true, false};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        assert_ok(ledger_url_read(right[i], &url, &err));
        assert_int_equal(url.loopback, loopback[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(messages_hold_no_password)};
    return scratch_run("ledger_address", tests, sizeof tests / sizeof *tests);
}
