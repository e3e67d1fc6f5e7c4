#include "common/harness/stage.h"
#include "stages/watcher/watcher.h"

int main(int argc, char **argv) {
    return stage_main(&watcher_stage, argc, argv);
}
