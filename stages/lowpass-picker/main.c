#include "common/harness/stage.h"
#include "stages/lowpass-picker/lowpass_picker.h"

int main(int argc, char **argv) {
    return stage_main(&lowpass_picker_stage, argc, argv);
}
