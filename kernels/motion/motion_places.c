/* Finds the places at which the frames of a group are read for a tile of the spectrum. */
#include "kernels/motion/motion_places.h"

#include <math.h>

int motion_places_groups(int frames, int group) {
    int groups = frames / group;
    return groups > 0 ? groups : 1;
}

int motion_places_group_start(int frames, int groups, int group) {
    return (int)((long long)group * frames / groups);
}

static int clamp(int value, int least, int most) {
    return value < least ? least : value > most ? most : value;
}

void motion_places_fill(const struct motion_model *model, int first, int end, const int start[2], int box,
                        int (*ret_places)[2]) {
    const int sides[2] = {model->nx, model->ny};
    for (int j = first; j < end; j++) {
        double shift[2];
        motion_model_at(model, start[0] + box / 2.0, start[1] + box / 2.0, j, shift);
        for (int axis = 0; axis < 2; axis++)
            ret_places[j][axis] = (int)lround(shift[axis]);
    }
    for (int axis = 0; axis < 2; axis++) {
        int least = ret_places[first][axis], most = least, from = start[axis];
        for (int j = first + 1; j < end; j++) {
            least = ret_places[j][axis] < least ? ret_places[j][axis] : least;
            most = ret_places[j][axis] > most ? ret_places[j][axis] : most;
        }
        if (from - least > sides[axis] - box) from = sides[axis] - box + least;
        if (from - most < 0) from = most;
        for (int j = first; j < end; j++)
            ret_places[j][axis] = clamp(from - ret_places[j][axis], 0, sides[axis] - box);
    }
}
