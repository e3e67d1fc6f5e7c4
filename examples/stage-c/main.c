/* icestream-brightness: the template for a stage of your own. It measures how bright and how even each micrograph is,
 * adds both numbers to the item as columns (so that reject_if can use them) and writes a line of text as its product.
 *
 * A stage is seven small files and one line: main.c (this file), parameters.[ch] (what a user sets), stage.c (the callbacks
 * and the descriptor), brightness.[ch] (the algorithm), CMakeLists.txt, and add_subdirectory in the CMakeLists.txt
 * above. */
#include "brightness.h"
#include "common/harness/stage.h"

int main(int argc, char **argv) {
    return stage_main(&brightness_stage, argc, argv);
}
