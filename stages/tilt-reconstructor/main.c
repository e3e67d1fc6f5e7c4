#include "common/harness/stage.h"
#include "stages/tilt-reconstructor/tilt_reconstructor.h"

int main(int argc, char **argv) {
    return stage_main(&tilt_reconstructor_stage, argc, argv);
}
