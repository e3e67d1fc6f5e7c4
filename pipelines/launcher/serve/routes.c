/* The table of all endpoints: one row for each, in the order in which the page meets them. */
#include "pipelines/launcher/alarms/alarms_serve.h"
#include "pipelines/launcher/api/api.h"
#include "pipelines/launcher/control.h"
#include "pipelines/launcher/metrics/metrics_serve.h"
#include "pipelines/launcher/serve/http.h"
#include "pipelines/launcher/serve/serve_handlers.h"

const struct http_route http_routes[] = {
    /* The page. */
    {HTTP_GET, "/", serve_page, HTTP_VIEW},
    {HTTP_GET, "/app.css", serve_page, HTTP_VIEW},
    {HTTP_GET, "/app.js", serve_page, HTTP_VIEW},
    {HTTP_GET, "/worker.js", serve_page, HTTP_VIEW},
    /* Data that the page shows. */
    {HTTP_GET, "/api/session", api_session, HTTP_VIEW},
    {HTTP_GET, "/api/status", api_status, HTTP_VIEW},
    {HTTP_GET, "/api/items", api_items, HTTP_VIEW},
    {HTTP_GET, "/api/item/*", api_item, HTTP_VIEW},
    {HTTP_GET, "/api/picks/*", api_picks, HTTP_VIEW},
    {HTTP_GET, "/api/ctf/*", api_ctf, HTTP_VIEW},
    {HTTP_GET, "/api/motion/*", api_motion, HTTP_VIEW},
    {HTTP_GET, "/api/grid", api_grid, HTTP_VIEW},
    {HTTP_GET, "/api/history/*", api_history, HTTP_VIEW},
    {HTTP_GET, "/api/classes", api_classes, HTTP_VIEW},
    {HTTP_GET, "/api/fsc", api_fsc, HTTP_VIEW},
    {HTTP_GET, "/api/directions", api_directions, HTTP_VIEW},
    {HTTP_GET, "/api/map/*", api_map, HTTP_VIEW},
    {HTTP_GET, "/api/log", api_log, HTTP_VIEW},
    {HTTP_GET, "/api/tomograms", api_tomograms, HTTP_VIEW},
    {HTTP_GET, "/api/drops", api_drops, HTTP_VIEW},
    {HTTP_GET, "/api/ensemble", api_ensemble, HTTP_VIEW},
    {HTTP_GET, "/api/ensemble/matrix", api_matrix, HTTP_VIEW},
    {HTTP_GET, "/pic/classes/*", api_sprite, HTTP_VIEW},
    {HTTP_GET, "/pic/tomogram/*/*", api_slice, HTTP_VIEW},
    {HTTP_GET, "/pic/*/*/*", api_picture, HTTP_VIEW},
    {HTTP_GET, "/api/alarms", alarms_get, HTTP_VIEW},
    {HTTP_GET, "/api/events", serve_events, HTTP_VIEW},
    /* Controls. */
    {HTTP_POST, "/api/control", control_post, HTTP_CONTROL},
    /* For Prometheus. */
    {HTTP_GET, "/metrics", metrics_get, HTTP_MEASURE},
    /* Health: the server lives; all is well. */
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
