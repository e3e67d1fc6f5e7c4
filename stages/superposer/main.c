#include "stages/superposer/stage.h"

int main(int argc, char **argv) {
    return stage_main(&superposer_stage, argc, argv);
}
