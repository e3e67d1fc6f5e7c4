#include "common/harness/stage.h"
#include "stages/superposer/superposer.h"

int main(int argc, char **argv) {
    return stage_main(&superposer_stage, argc, argv);
}
