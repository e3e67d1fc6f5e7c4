/* Orders to hosts: each has a number, and is sent until the host says that it has carried it out. */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "pipelines/launcher/host/hosts_private.h"

static const double REPEAT = 1; /* s until an order that is not heard is sent again */

void hosts_send(struct hosts *hosts, const char *peer, enum host_kind kind, json_t *content) {
    char *text = NULL;
    size_t length = 0;
    bool sent = false;
    if (host_message_encode(kind, content, &text, &length, NULL) != STATUS_OK) return;
    /* A peer that is away gets the next one. */
    (void)!control_send(hosts->control, peer, text, length, &sent, NULL);
    free(text);
}

static enum status keep(struct host *host, int64_t number, char *text, size_t length, struct err *err) {
    if (host->order_count == host->order_room) {
        size_t room = 2 * host->order_room + 16;
        struct order *orders = realloc(host->orders, room * sizeof *orders);
        FAIL_IF(orders == NULL, err, STATUS_NO_MEMORY, "no memory for the orders of the host %s", host->name);
        host->orders = orders;
        host->order_room = room;
    }
    host->orders[host->order_count++] = (struct order){number, text, length};
    return STATUS_OK;
}

static void send_order(const struct host *host, const struct order *order) {
    bool sent = false;
    (void)!control_send(host->hosts->control, host->peer, order->text, order->length, &sent, NULL);
}

enum status hosts_order(struct host *host, const char *what, json_t *content, struct err *err) {
    char *text = NULL;
    size_t length = 0;
    if (content == NULL) content = json_object();
    json_object_set_new(content, "member", json_string(host->member));
    json_object_set_new(content, "number", json_integer(host->order_number + 1));
    json_object_set_new(content, "what", json_string(what));
    TRY(host_message_encode(HOST_ORDER, content, &text, &length, err));
    enum status status = keep(host, host->order_number + 1, text, length, err);
    if (status != STATUS_OK) {
        free(text);
        return status;
    }
    host->order_number++;
    if (host->order_count == 1) host->sent_at = clock_monotonic();
    send_order(host, &host->orders[host->order_count - 1]);
    return STATUS_OK;
}

void hosts_orders_heard(struct host *host, int64_t number) {
    size_t heard = 0;
    while (heard < host->order_count && host->orders[heard].number <= number)
        free(host->orders[heard++].text);
    if (heard == 0) return;
    host->order_count -= heard;
    memmove(host->orders, host->orders + heard, host->order_count * sizeof *host->orders);
    host->sent_at = clock_monotonic();
}

void hosts_orders_repeat(struct host *host) {
    if (host->order_count == 0 || clock_monotonic() - host->sent_at < REPEAT) return;
    for (size_t i = 0; i < host->order_count; i++)
        send_order(host, &host->orders[i]);
    host->sent_at = clock_monotonic();
}

void hosts_orders_clear(struct host *host) {
    for (size_t i = 0; i < host->order_count; i++)
        free(host->orders[i].text);
    free(host->orders);
    host->orders = NULL;
    host->order_count = host->order_room = 0;
    host->order_number = 0;
}
