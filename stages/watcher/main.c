#include "stages/watcher/stage.h"

int main(int argc, char **argv) {
    return stage_main(&watcher_stage, argc, argv);
}
