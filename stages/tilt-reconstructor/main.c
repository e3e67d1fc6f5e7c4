#include "stages/tilt-reconstructor/stage.h"

int main(int argc, char **argv) {
    return stage_main(&tilt_reconstructor_stage, argc, argv);
}
