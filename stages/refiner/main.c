#include "common/harness/stage.h"
#include "stages/refiner/refiner.h"

int main(int argc, char **argv) {
    return stage_main(&refiner_stage, argc, argv);
}
