#include "stages/crystal-scorer/stage.h"

int main(int argc, char **argv) {
    return stage_main(&crystal_scorer_stage, argc, argv);
}
