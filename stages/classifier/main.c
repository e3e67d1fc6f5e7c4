#include "stages/classifier/stage.h"

int main(int argc, char **argv) {
    return stage_main(&classifier_stage, argc, argv);
}
