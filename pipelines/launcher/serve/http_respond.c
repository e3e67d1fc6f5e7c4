/* Hands an answer to libmicrohttpd: headers that all answers carry, compression, files, streams. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "common/clock.h"
#include "pipelines/launcher/serve/http_server_private.h"
#include "pipelines/launcher/serve/target.h"

enum { SQUEEZE_LEAST = 4 << 10, STREAM_BLOCK = 32 << 10 };

/* For every answer: nothing may frame the page, guess a type, or load or send anything elsewhere. */
static const char *const headers[][2] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
     "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
};

/* Compresses the bytes if that helps; else leaves them. */
static void squeeze(struct http_answer *answer) {
    z_stream stream = {0};
    const void *plain = answer->bytes != NULL ? answer->bytes : answer->borrowed;
    if (deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) return;
    size_t bound = deflateBound(&stream, answer->length);
    char *bytes = malloc(bound);
    stream.next_in = (Bytef *)plain;
    stream.avail_in = (uInt)answer->length;
    stream.next_out = (Bytef *)bytes;
    stream.avail_out = (uInt)bound;
    bool well = bytes != NULL && deflate(&stream, Z_FINISH) == Z_STREAM_END && stream.total_out < answer->length;
    size_t length = stream.total_out;
    deflateEnd(&stream);
    if (!well) {
        free(bytes);
        return;
    }
    http_answer_bytes(answer, answer->type, bytes, length);
    answer->squeezed = true;
}

/* Returns whether bytes of this type become smaller. */
static bool is_text(const char *type) {
    return type != NULL && (strncmp(type, "text/", 5) == 0 || strcmp(type, "application/json") == 0 ||
                            strcmp(type, "application/octet-stream") == 0);
}

static ssize_t read_stream(void *context, uint64_t position, char *buffer, size_t size) {
    struct http_exchange *exchange = context;
    struct http_server *server = exchange->server;
    (void)position;
    pthread_mutex_lock(&server->lock);
    ssize_t length = MHD_CONTENT_READER_END_OF_STREAM;
    if (!server->closing && !exchange->ended) {
        length = (ssize_t)events_read(exchange->events, &exchange->place, buffer, size);
        if (length == 0 && exchange->beat && size >= 6) {
            memcpy(buffer, ": hb\n\n", 6);
            length = 6;
        }
        exchange->beat = false;
        if (length > 0) exchange->moved = clock_monotonic();
        if (length == 0) {
            exchange->suspended = true;
            MHD_suspend_connection(exchange->connection);
        }
    }
    pthread_mutex_unlock(&server->lock);
    return length;
}

static struct MHD_Response *make(struct http_exchange *exchange) {
    struct http_answer *answer = &exchange->answer;
    struct MHD_Response *response;
    if (answer->stream) {
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream, exchange, NULL);
    } else if (answer->is_file) {
        response = MHD_create_response_from_fd64((uint64_t)answer->file_length, answer->descriptor);
        if (response != NULL) answer->is_file = false; /* it closes the file */
    } else if (answer->bytes != NULL) {
        response = MHD_create_response_from_buffer(answer->length, answer->bytes, MHD_RESPMEM_MUST_FREE);
        if (response != NULL) answer->bytes = NULL;
    } else {
        response = MHD_create_response_from_buffer(answer->borrowed != NULL ? answer->length : 0,
                                                   answer->borrowed != NULL ? (void *)answer->borrowed : (void *)"",
                                                   MHD_RESPMEM_PERSISTENT);
    }
    return response;
}

static bool add_headers(struct MHD_Response *response, const struct http_answer *answer) {
    bool well = true;
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        well = well && MHD_add_response_header(response, headers[i][0], headers[i][1]) == MHD_YES;
    for (size_t i = 0; i < answer->header_count; i++)
        well = well && MHD_add_response_header(response, answer->headers[i].name, answer->headers[i].value) == MHD_YES;
    const char *cache = answer->cache == HTTP_IMMUTABLE ? "private, max-age=31536000, immutable"
                        : answer->cache == HTTP_TAGGED  ? "private, no-cache"
                                                        : "no-store";
    well = well && MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, cache) == MHD_YES;
    if (answer->tag[0] != '\0')
        well = well && MHD_add_response_header(response, MHD_HTTP_HEADER_ETAG, answer->tag) == MHD_YES;
    if (answer->type != NULL)
        well = well && MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type) == MHD_YES;
    if (answer->squeezed)
        well = well && MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip") == MHD_YES;
    if (is_text(answer->type) && !answer->stream)
        well = well && MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, "Accept-Encoding, Cookie") == MHD_YES;
    /* A proxy passes each event on at once. */
    if (answer->stream) well = well && MHD_add_response_header(response, "X-Accel-Buffering", "no") == MHD_YES;
    return well;
}

/* Brings what is kept compressed into the form that any client can read. */
static void expand(struct http_answer *answer) {
    enum { LIMIT = 4 << 20 };
    z_stream stream = {0};
    char *bytes = malloc(LIMIT);
    if (bytes == NULL || inflateInit2(&stream, 15 + 16) != Z_OK) {
        free(bytes);
        return;
    }
    stream.next_in = (Bytef *)answer->borrowed;
    stream.avail_in = (uInt)answer->length;
    stream.next_out = (Bytef *)bytes;
    stream.avail_out = LIMIT;
    bool well = inflate(&stream, Z_FINISH) == Z_STREAM_END;
    size_t length = stream.total_out;
    inflateEnd(&stream);
    if (!well) {
        free(bytes);
        return;
    }
    http_answer_bytes(answer, answer->type, bytes, length);
    answer->squeezed = false;
}

void http_squeeze(struct http_exchange *exchange) {
    struct http_answer *answer = &exchange->answer;
    if (answer->squeezed && answer->borrowed != NULL && !target_accepts(exchange->raw.encodings, "gzip"))
        expand(answer);
    bool has = answer->bytes != NULL || answer->borrowed != NULL;
    if (has && !answer->squeezed && !answer->stream && answer->length >= SQUEEZE_LEAST && is_text(answer->type) &&
        target_accepts(exchange->raw.encodings, "gzip"))
        squeeze(answer);
}

enum MHD_Result http_respond(struct http_exchange *exchange) {
    struct MHD_Response *response = make(exchange);
    if (response == NULL) return MHD_NO;
    enum MHD_Result result = MHD_NO;
    if (add_headers(response, &exchange->answer))
        result = MHD_queue_response(
            exchange->connection, exchange->answer.code != 0 ? (unsigned)exchange->answer.code : MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return result;
}
