#include "pipelines/launcher/serve/target.h"

#include <string.h>
#include <strings.h>

#include "common/text.h"

static int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static bool plain(const char *text, size_t length) {
    for (size_t i = 0, step; i < length; i += step) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7F) return false;
        step = text_character(text + i, length - i);
        if (step == 0) return false;
    }
    return true;
}

/* Decodes up to one of the characters in `ends`. Returns where it stopped, or NULL. *used: bytes of out that are taken;
 * a zero byte is added. */
static const char *decode(const char *text, const char *ends, bool blanks, char *out, size_t size, size_t *used) {
    size_t begin = *used;
    while (*text != '\0' && strchr(ends, *text) == NULL) {
        int high = *text == '%' ? digit(text[1]) : 0, low = *text == '%' && high >= 0 ? digit(text[2]) : 0;
        if (high < 0 || low < 0 || *used + 1 >= size) return NULL;
        char c = *text == '%' ? (char)(high << 4 | low) : *text;
        if (c == '\0') return NULL;
        if (blanks && *text == '+') c = ' ';
        out[(*used)++] = c;
        text += *text == '%' ? 3 : 1;
    }
    if (*used >= size || !plain(out + begin, *used - begin)) return NULL;
    out[(*used)++] = '\0';
    return text;
}

/* Returns whether no part is empty but the last, and none is "." or "..". */
static bool parts_are_names(const char *path) {
    if (path[0] != '/') return false;
    for (const char *part = path + 1;; part++) {
        size_t length = strcspn(part, "/");
        bool last = part[length] == '\0';
        if ((length == 0 && !last) || (length == 1 && part[0] == '.') || (length == 2 && memcmp(part, "..", 2) == 0))
            return false;
        if (last) return true;
        part += length;
    }
}

bool target_read(const char *text, struct target *ret_target) {
    struct target *target = ret_target;
    size_t used = 0;
    *target = (struct target){0};
    if (text[0] != '/') return false;
    const char *at = decode(text, "?#", false, target->path, sizeof target->path, &used);
    if (at == NULL || *at == '#' || !parts_are_names(target->path)) return false;
    used = 0;
    while (*at != '\0') { /* at '?' or '&' */
        at++;
        if (*at == '\0') break;
        if (*at == '&') continue;
        if (target->pair_count == HTTP_PAIRS) return false;
        struct http_pair *pair = &target->pairs[target->pair_count++];
        pair->key = target->values + used;
        at = decode(at, "=&#", true, target->values, sizeof target->values, &used);
        if (at == NULL || *at == '#') return false;
        pair->value = "";
        if (*at != '=') continue;
        pair->value = target->values + used;
        at = decode(at + 1, "&#", true, target->values, sizeof target->values, &used);
        if (at == NULL || *at == '#') return false;
    }
    return true;
}

bool target_host(const char *text, char *ret_name, size_t size) {
    bool bracket = text[0] == '[';
    const char *name = text + bracket;
    size_t length = strcspn(name, bracket ? "]" : ":");
    const char *rest = name + length;
    if (length == 0 || length >= size || (bracket && *rest++ != ']')) return false;
    if (*rest == ':') {
        size_t digits = strspn(rest + 1, "0123456789");
        if (digits == 0 || digits > 5) return false;
        rest += 1 + digits;
    }
    if (*rest != '\0' || (bracket && memchr(name, ':', length) == NULL)) return false;
    for (size_t i = 0; i < length; i++) {
        char c = name[i];
        bool letter =
            (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.';
        if (!letter && !(bracket ? c == ':' : c == '_')) return false;
        ret_name[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    ret_name[length] = '\0';
    return true;
}

bool target_same_origin(const char *origin, const char *host) {
    const char *rest = strncmp(origin, "http://", 7) == 0    ? origin + 7
                       : strncmp(origin, "https://", 8) == 0 ? origin + 8
                                                             : NULL;
    return rest != NULL && host[0] != '\0' && strcasecmp(rest, host) == 0;
}

bool target_cookie(const char *header, const char *name, char *ret_value, size_t size) {
    size_t wanted = strlen(name);
    for (const char *at = header; *at != '\0'; at += *at == ';') {
        at += strspn(at, " \t");
        size_t length = strcspn(at, ";"), key = strcspn(at, "=;");
        if (key == wanted && at[key] == '=' && memcmp(at, name, wanted) == 0) {
            size_t value = length - key - 1;
            while (value > 0 && (at[key + value] == ' ' || at[key + value] == '\t'))
                value--;
            if (value >= size) return false;
            memcpy(ret_value, at + key + 1, value);
            ret_value[value] = '\0';
            return true;
        }
        at += length;
    }
    return false;
}

bool target_bearer(const char *header, char *ret_value, size_t size) {
    static const char word[] = "Bearer ";
    if (strncasecmp(header, word, sizeof word - 1) != 0) return false;
    const char *value = header + sizeof word - 1;
    value += strspn(value, " ");
    size_t length = strcspn(value, " \t");
    if (length == 0 || length >= size || value[length] != '\0') return false;
    memcpy(ret_value, value, length + 1);
    return true;
}

bool target_accepts(const char *header, const char *word) {
    size_t wanted = strlen(word);
    for (const char *at = header; *at != '\0'; at += *at == ',') {
        at += strspn(at, " \t");
        size_t length = strcspn(at, ","), name = strcspn(at, " \t;,");
        if (name == wanted && strncasecmp(at, word, wanted) == 0) {
            const char *q = memchr(at, '=', length);
            if (q == NULL) return true;
            /* Every digit of q=0, q=0.0, q=0.000 is a zero. */
            for (const char *c = q + 1; c < at + length; c++)
                if (*c >= '1' && *c <= '9') return true;
            return false;
        }
        at += length;
    }
    return false;
}

bool target_equal(const char *a, const char *b) {
    size_t left = strlen(a), right = strlen(b);
    volatile unsigned char difference = left != right;
    for (size_t i = 0; i < left; i++)
        difference = difference | (unsigned char)(a[i] ^ b[right > 0 ? i % right : 0]);
    return difference == 0;
}
