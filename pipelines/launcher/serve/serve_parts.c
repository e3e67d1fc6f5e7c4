/* The table of parts that do something at regular times. */
#include "pipelines/launcher/alarms/alarms_serve.h"
#include "pipelines/launcher/api/api.h"
#include "pipelines/launcher/report/report_serve.h"
#include "pipelines/launcher/serve/serve.h"

const struct serve_part serve_parts[] = {
    {"api", api_begin, api_tick, api_end},
    {"report", report_serve_begin, report_serve_tick, report_serve_end},
    {"alarms", alarms_serve_begin, alarms_serve_tick, alarms_serve_end},
    {0},
};
