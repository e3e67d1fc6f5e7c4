#include "stages/refiner/stage.h"

int main(int argc, char **argv) {
    return stage_main(&refiner_stage, argc, argv);
}
