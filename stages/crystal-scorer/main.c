#include "stages/crystal-scorer/scorer_stage.h"

int main(int argc, char **argv) {
    return stage_main(&crystal_scorer_stage, argc, argv);
}
