#include <stddef.h>
#include <string.h>

#include "common/formats/relion.h"

/* Lengths of the lists of directions that relion_refine 3.1.3 wrote, orders 0 to 6; 0: unknown. RELION leaves out
 * directions near the borders of the asymmetric unit by rules of its own. */
enum { ORDERS = 7 };
static const struct {
    const char *symmetry;
    long counts[ORDERS];
} GRIDS[] = {
    {"C2", {6, 24, 96, 384, 1536, 6176, 0}}, {"C3", {3, 14, 60, 248, 1003, 4086, 0}},
    {"C4", {3, 12, 48, 192, 768, 3072, 0}},  {"C5", {1, 8, 35, 150, 598, 2438, 0}},
    {"C6", {1, 6, 28, 118, 496, 2005, 0}},   {"C7", {1, 5, 24, 106, 427, 1726, 0}},
    {"C8", {1, 5, 24, 96, 384, 1536, 0}},    {"D2", {4, 12, 48, 192, 768, 3072, 0}},
    {"D3", {2, 8, 33, 129, 503, 2033, 0}},   {"D4", {2, 6, 24, 96, 384, 1536, 0}},
    {"D5", {1, 5, 19, 76, 305, 1220, 0}},    {"D6", {1, 3, 14, 59, 248, 1003, 0}},
    {"D7", {1, 3, 13, 53, 218, 864, 0}},     {"D8", {1, 3, 12, 48, 192, 768, 0}},
    {"T", {1, 3, 14, 59, 250, 1009, 4075}},  {"O", {1, 1, 7, 32, 126, 507, 0}},
    {"I", {0, 0, 2, 11, 48, 199, 0}},        {"I1", {1, 1, 3, 12, 49, 199, 0}},
    {"I2", {0, 0, 2, 11, 48, 199, 0}},       {"I3", {0, 0, 4, 12, 53, 206, 0}},
    {"I4", {0, 1, 2, 11, 48, 196, 0}},
};

long relion_direction_count(const char *symmetry, int order) {
    if (strcmp(symmetry, "C1") == 0) return 12L << (2 * order);
    for (size_t i = 0; i < sizeof GRIDS / sizeof *GRIDS; i++)
        if (order >= 0 && order < ORDERS && strcmp(symmetry, GRIDS[i].symmetry) == 0) return GRIDS[i].counts[order];
    return 0;
}
