#include "common/harness/stage.h"
#include "stages/classifier/classifier.h"

int main(int argc, char **argv) {
    return stage_main(&classifier_stage, argc, argv);
}
