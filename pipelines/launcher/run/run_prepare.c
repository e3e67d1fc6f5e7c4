/* Prepares a run: sockets, instance files, arguments and environment of each process. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/edges/transport_keys.h"
#include "common/memory.h"
#include "pipelines/launcher/run/instance.h"
#include "pipelines/launcher/run/run_private.h"

static const double REPLAY_IDLE = 2; /* s without a new file before the stream of a replay ends */

/* Makes a folder for the sockets, which only this user may enter, and whose path is short. */
static enum status make_socket_folder(struct run *run, struct err *err) {
    const char *const parents[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp"};
    struct stat info;
    for (size_t i = 0; i < 3; i++) {
        if (parents[i] == NULL || parents[i][0] != '/' || strlen(parents[i]) > PLAN_IPC_MAX - 32 ||
            access(parents[i], W_OK | X_OK) != 0 || stat(parents[i], &info) != 0)
            continue;
        /* Others who may rename our folder could put one of theirs in its place. */
        if ((info.st_mode & 022) != 0 && (info.st_mode & S_ISVTX) == 0) continue;
        snprintf(run->sockets, sizeof run->sockets, "%s/icestream-XXXXXX", parents[i]);
        /* The umask may have taken bits away. */
        if (mkdtemp(run->sockets) != NULL && chmod(run->sockets, 0700) == 0) return STATUS_OK;
    }
    run->sockets[0] = '\0';
    FAIL(err, STATUS_IO,
         "no folder for sockets can be made in XDG_RUNTIME_DIR, TMPDIR or /tmp: %s (one that others may write to must "
         "be sticky, as /tmp is)",
         strerror(errno));
}

void run_remove_sockets(const char *path) {
    if (path[0] == '\0') return;
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = descriptor >= 0 ? fdopendir(descriptor) : NULL;
    if (folder == NULL && descriptor >= 0) close(descriptor);
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry != NULL; entry = readdir(folder))
        if (entry->d_name[0] != '.') unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder != NULL) closedir(folder);
    rmdir(path);
}

/* A launcher that was killed has left its folder, whose name is in log/sockets. */
static enum status replace_socket_folder(struct run *run, struct err *err) {
    char path[PATH_SIZE];
    _cleanup_(mem_free) char *old = NULL;
    TRY(session_file(&run->session, "log", "sockets", "", path, err));
    if (file_exists(path)) TRY(file_read_whole(path, PATH_SIZE, &old, NULL, err));
    if (old != NULL && strncmp(path_name(old), "icestream-", 10) == 0 && strlen(path_name(old)) == 16)
        run_remove_sockets(old);
    TRY(make_socket_folder(run, err));
    return file_write_whole(path, run->sockets, strlen(run->sockets), err);
}

/* Appends the name of GPU i among those that this process may see, as CUDA numbers them. */
static void append_gpu(char *text, size_t size, int gpu) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    size_t used = strlen(text);
    for (int i = 0; visible != NULL && i < gpu && *visible != '\0'; i++)
        visible += strcspn(visible, ",") + (strchr(visible, ',') != NULL);
    if (visible != NULL)
        snprintf(text + used, size - used, "%s%.*s", used ? "," : "", (int)strcspn(visible, ","), visible);
    else
        snprintf(text + used, size - used, "%s%d", used ? "," : "", gpu);
}

static enum status fill_environment(const struct plan_instance *instance, struct child_texts *texts, struct err *err) {
    char gpus[512] = "";
    for (size_t g = 0; g < instance->gpu_count; g++)
        append_gpu(gpus, sizeof gpus, instance->gpus[g]);
    int count = 0;
    bool well = asprintf(&texts->env[count++], "OMP_NUM_THREADS=%d", instance->threads) >= 0 &&
                (texts->env[count++] = strdup("OMP_WAIT_POLICY=passive")) != NULL &&
                (texts->env[count++] = strdup("OPENBLAS_NUM_THREADS=1")) != NULL;
    /* A stage that chooses its device itself sees all GPUs. */
    if (well && (instance->gpu_count > 0 || strcmp(instance->device, "cpu") == 0))
        well = asprintf(&texts->env[count], "CUDA_VISIBLE_DEVICES=%s", gpus) >= 0;
    FAIL_IF(!well, err, STATUS_NO_MEMORY, "no memory for the environment of %s", instance->name);
    return STATUS_OK;
}

static enum status prepare_child(struct run *run, size_t index, const struct instance_orders *orders, struct err *err) {
    const struct plan_instance *instance = &run->plan->instances[index];
    const struct graph_stage *stage = &run->graph->stages[instance->stage];
    struct child_texts *texts = &run->texts[index];
    char ledger[PATH_SIZE];
    TRY(session_file(&run->session, "log", instance->name, ".instance.json", texts->orders, err));
    TRY(session_file(&run->session, "log", instance->name, ".log", texts->log, err));
    TRY(session_file(&run->session, "log", instance->name, ".heartbeat.json", texts->heartbeat, err));
    TRY(session_file(&run->session, "log", instance->name, ".current", texts->current, err));
    TRY(session_file(&run->session, "ledger", stage->section.name, ".sqlite", ledger, err));
    snprintf(texts->program, sizeof texts->program, "%s", stage->program);
    texts->argv[0] = texts->program;
    texts->argv[1] = strdup("--instance");
    texts->argv[2] = texts->orders;
    FAIL_IF(texts->argv[1] == NULL, err, STATUS_NO_MEMORY, "no memory for the arguments of %s", instance->name);
    TRY(fill_environment(instance, texts, err));
    unlink(texts->current);
    TRY(instance_write(&run->session, run->plan, index, orders, err));
    run->children[index] = (struct supervisor_child){.name = instance->name,
                                                     .argv = texts->argv,
                                                     .env = texts->env,
                                                     .log = texts->log,
                                                     .heartbeat = texts->heartbeat,
                                                     .heartbeat_expected = stage->describe != NULL,
                                                     .source = plan_is_source(stage)};
    return STATUS_OK;
}

/* Releases claims that the processes of an earlier launcher held when they died with it. */
static enum status release_claims(struct run *run, struct err *err) {
    for (size_t i = 0; i < run->plan->instance_count; i++) {
        const struct plan_instance *instance = &run->plan->instances[i];
        struct ledger *ledger = NULL;
        TRY(session_ledger(&run->session, run->graph->stages[instance->stage].section.name, false, &ledger, err));
        if (ledger == NULL) continue;
        enum status status = ledger_release_instance(ledger, instance->replica, err);
        ledger_close(&ledger);
        TRY(status);
    }
    return STATUS_OK;
}

enum status run_prepare(struct run *run, struct err *err) {
    char public_key[TRANSPORT_KEY_SIZE], secret_key[TRANSPORT_KEY_SIZE];
    struct instance_orders orders = {.until_idle = run->options->until_idle,
                                     .log_size = (int64_t)(run->options->log_size * (1 << 20))};
    if (run->replay != NULL && orders.until_idle < 0) orders.until_idle = run->replay->longest_gap + REPLAY_IDLE;
    if (run->replay != NULL) orders.recorded = run->replay->source;
    if (run->graph->tcp) {
        TRY(transport_make_keys(public_key, secret_key, err));
        orders.curve_public = public_key;
        orders.curve_secret = secret_key;
    }
    TRY(hung_create(run->plan, orders.curve_public, orders.curve_secret, &run->hung, err));
    run->children = calloc(run->plan->instance_count, sizeof *run->children);
    run->texts = calloc(run->plan->instance_count, sizeof *run->texts);
    run->released = calloc(run->plan->instance_count, sizeof *run->released);
    FAIL_IF(run->children == NULL || run->texts == NULL || run->released == NULL, err, STATUS_NO_MEMORY,
            "no memory for the processes");
    TRY(replace_socket_folder(run, err));
    TRY(plan_endpoints(run->plan, run->sockets, err));
    TRY(release_claims(run, err));
    for (size_t i = 0; i < run->plan->instance_count; i++)
        TRY(prepare_child(run, i, &orders, err));
    return STATUS_OK;
}
