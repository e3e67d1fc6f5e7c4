/* Grid square and foil hole of an exposure, from its path alone. EPU: "…/GridSquare_123/Data/FoilHole_456_Data_…" and
 * the flattened forms "Images-Disc1_GridSquare_123_Data_FoilHole_456_…". SerialEM: names that a user's template gives,
 * "…square12_hole3…", and multi-shot names "…_12-3_…", where 12 is the item of the navigator and 3 the hole. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_VIEW_VIEW_PATH_H
#define ICESTREAM_PIPELINES_LAUNCHER_VIEW_VIEW_PATH_H

enum { VIEW_PLACE_SIZE = 64 };
struct view_place {
    char square[VIEW_PLACE_SIZE], hole[VIEW_PLACE_SIZE]; /* "": the path names none */
};
/* Finds both in a path or an item's id. A number too long to be one is none. */
struct view_place view_place(const char *path);

#endif
