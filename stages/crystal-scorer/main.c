#include "common/harness/stage.h"
#include "stages/crystal-scorer/crystal_scorer.h"

int main(int argc, char **argv) {
    return stage_main(&crystal_scorer_stage, argc, argv);
}
