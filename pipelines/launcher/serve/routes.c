/* The table of all endpoints: one row for each, in the order in which the page meets them. */
#include "pipelines/launcher/serve/http.h"
#include "pipelines/launcher/serve/serve_handlers.h"

const struct http_route http_routes[] = {
    /* The page. */
    {HTTP_GET, "/", serve_page, HTTP_VIEW},
    {HTTP_GET, "/app.css", serve_page, HTTP_VIEW},
    {HTTP_GET, "/app.js", serve_page, HTTP_VIEW},
    {HTTP_GET, "/worker.js", serve_page, HTTP_VIEW},
    /* What it shows. */
    {HTTP_GET, "/api/events", serve_events, HTTP_VIEW},
    /* Whether the server lives; and whether all is well. */
    {HTTP_GET, "/healthz", serve_health, HTTP_ANYONE},
    {HTTP_GET, "/readyz", serve_ready, HTTP_MEASURE},
    {0},
};

const struct http_route facility_routes[] = {
    {HTTP_GET, "/", serve_page, HTTP_VIEW},
    {HTTP_GET, "/app.css", serve_page, HTTP_VIEW},
    {HTTP_GET, "/app.js", serve_page, HTTP_VIEW},
    {HTTP_GET, "/worker.js", serve_page, HTTP_VIEW},
    {HTTP_GET, "/api/sessions", serve_sessions, HTTP_VIEW},
    {HTTP_GET, "/healthz", serve_health, HTTP_ANYONE},
    {0},
};
