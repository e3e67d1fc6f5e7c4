#include "common/harness/stage.h"
#include "stages/extractor/extractor.h"

int main(int argc, char **argv) {
    return stage_main(&extractor_stage, argc, argv);
}
