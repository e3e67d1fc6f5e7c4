#include "common/harness/stage.h"
#include "stages/ctf-estimator/ctf_estimator.h"

int main(int argc, char **argv) {
    return stage_main(&ctf_estimator_stage, argc, argv);
}
