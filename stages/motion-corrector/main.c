#include "common/harness/stage.h"
#include "stages/motion-corrector/motion_corrector.h"

int main(int argc, char **argv) {
    return stage_main(&motion_corrector_stage, argc, argv);
}
